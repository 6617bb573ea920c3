"""Ranks in processes of this host.

Children are forked by a server process that has imported fl_dist (``forkserver``): a fresh
interpreter takes half a second, and forking a program with threads is unsafe.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from fl_dist.communicator import Communicator
from fl_dist.errors import DistError, PeerError, ProgramError
from fl_dist.launch import wire
from fl_dist.rank_info import RankInfo

__all__ = ["end_with_parent", "first_failure", "run", "what_ended"]

GRACE = 5.0  # seconds that the others have after the first failure
JOINED = b""  # a child's first message; its second one is the outcome
_PR_SET_PDEATHSIG = 1


def run(
    communicator: type[Communicator],
    world_size: int,
    fn: Callable[..., Any],
    args: Sequence[Any],
    timeout: float | None = None,
) -> list[Any]:
    """``fn(communicator, *args)`` on ``world_size`` processes; the results in rank order.

    Raises ProgramError when a rank raises or its process ends otherwise. The other ranks then have
    5 seconds before their processes are killed. No process is left when ``run`` is left, whatever
    the reason.
    """
    packed = wire.pack(communicator, world_size, fn, args, timeout)
    folder = tempfile.mkdtemp(prefix="fl_dist-")
    children = _Children(world_size)
    try:
        for rank in range(world_size):
            place = RankInfo(rank, world_size, rank, world_size, store=f"file:{folder}")
            children.start(rank, packed[rank], place)
        children.wait(when_joined=lambda: shutil.rmtree(folder, ignore_errors=True))
    finally:
        children.end()
        shutil.rmtree(folder, ignore_errors=True)
    if children.errors:
        raise ProgramError(first_failure(children.errors), children.errors, world_size)
    return children.results


class _Children:
    """The processes of one ``run``."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.results: list[Any] = [None] * world_size
        self.errors: dict[int, BaseException] = {}  # in the order of their coming
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._pipes: dict[Connection, int] = {}
        self._joined = 0
        self._context = multiprocessing.get_context("forkserver")
        preloaded = {"fl_dist.processes", "fl_dist.launch.wire", "fl_dist.launch.fork_server"}
        preloaded |= {name for name in sys.modules if name.startswith("fl_") and "." not in name}
        self._context.set_forkserver_preload(sorted(preloaded))

    def start(self, rank: int, packed: bytes, place: RankInfo) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_child, args=(packed, place, theirs), name=f"rank {rank} of {self.world_size}"
        )
        try:
            process.start()
        finally:
            theirs.close()
        self._processes.append(process)
        self._pipes[ours] = rank

    def wait(self, when_joined: Callable[[], None]) -> None:
        """Take in outcomes until all have come, or GRACE has passed since the first failure."""
        end: float | None = None
        while self._pipes and (end is None or time.monotonic() < end):
            pause = None if end is None else max(0.0, end - time.monotonic())
            for pipe in multiprocessing.connection.wait(list(self._pipes), pause):
                assert isinstance(pipe, Connection)
                if self._take(pipe):
                    self._joined += 1
                    if self._joined == self.world_size:
                        when_joined()
            if self.errors and end is None:
                end = time.monotonic() + GRACE
        for rank in self._pipes.values():
            self.errors[rank] = DistError(
                f"rank {rank} still ran {GRACE:g} s after another rank had failed, and was killed"
            )

    def _take(self, pipe: Connection) -> bool:
        """Read one message; whether it says that the rank has joined."""
        rank = self._pipes[pipe]
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            process = self._processes[rank]
            process.join(GRACE)
            error: BaseException | None = DistError(what_ended(rank, process.exitcode))
        else:
            if message == JOINED:
                return True
            self.results[rank], error = wire.load_outcome(message)
        if error is not None:
            self.errors[rank] = error
        del self._pipes[pipe]
        pipe.close()
        return False

    def end(self) -> None:
        """Leave no process behind."""
        for pipe in self._pipes:
            pipe.close()
        end = time.monotonic() + (0.0 if self._pipes else GRACE)
        for process in self._processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
        for process in self._processes:
            process.join()
            process.close()


def first_failure(errors: dict[int, BaseException]) -> int:
    """The rank that failed first, of errors in the order of their coming: one that did not fail
    because of another rank."""
    for rank, error in errors.items():
        if not isinstance(error, PeerError) or error.rank == rank:
            return rank
    first = next(iter(errors.values()))
    assert isinstance(first, PeerError)
    return first.rank if first.rank in errors else next(iter(errors))


def what_ended(rank: int, exitcode: int | None) -> str:
    """An end without an outcome, in words."""
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        hint = "; the kernel does that when memory runs out" if name == "SIGKILL" else ""
        return f"the process of rank {rank} was killed by {name}{hint}"
    return (
        f"the process of rank {rank} ended with exit code {exitcode} and without an outcome: it "
        "called os._exit, or could not import the program (a script guards its start with "
        "if __name__ == '__main__')"
    )


# ---- in the child --------------------------------------------------------------------------------


def _child(packed: bytes, place: RankInfo, pipe: Connection) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # the terminal's are the caller's, who ends all
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()

    def joined() -> None:
        with contextlib.suppress(OSError):  # not empty yet, or gone; the caller may be killed
            os.rmdir(place.store.removeprefix("file:"))
        pipe.send_bytes(JOINED)

    outcome = wire.perform(packed, place, joined)
    with contextlib.suppress(BrokenPipeError):
        pipe.send_bytes(outcome)
    pipe.close()


def end_with_parent() -> None:
    """End this process when the caller ends, however it ends, and when the fork server does."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(
            target=_wait_for_end, args=(parent.sentinel,), name="fl_dist parent", daemon=True
        ).start()


def _wait_for_end(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)
