"""The processes of one host: started, watched, their output prefixed, ended together.

Each is the leader of a session of its own. So a signal from the terminal reaches it through the
launcher only, and processes that it started can be killed with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import IO, TextIO

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What a script returns that has saved its work and wants to be started again (EX_TEMPFAIL).
RESTART_ME = 75
#: Seconds between two looks at the processes; a longer line is printed in pieces of so many bytes.
NAP, LINE_LIMIT = 0.1, 1 << 16

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class Child:
    """One rank: its process, and what it has written of a line."""

    def __init__(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        self.rank = rank
        self.process = process
        self.partial: dict[IO[bytes], bytes] = {}
        self.status: int | None = None  # as of Popen: negative for a signal
        self.killed = False  # by the launcher

    def signal(self, number: int) -> None:
        """Send a signal to the rank and what it has started."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended, or is not in its own group yet

    def ended(self) -> bool:
        """Whether it has ended; if so, what it left behind is killed, and ``status`` is known."""
        if self.status is None:
            if hasattr(os, "waitid"):  # a look, so that nobody else gets the number of its group
                options = os.WEXITED | os.WNOHANG | os.WNOWAIT
                if os.waitid(os.P_PID, self.process.pid, options) is None:
                    return False
            elif self.process.poll() is None:
                return False
            self.signal(signal.SIGKILL)
            self.status = self.process.wait()
        return True


class Children:
    """``with Children(...) as children: children.watch(...)``; none outlives the block.

    command       what every rank runs
    environments  of every rank, by its number
    grace         seconds that the others have to end after the first failure or a signal
    """

    def __init__(
        self, command: Sequence[str], environments: Mapping[int, Mapping[str, str]], grace: float
    ) -> None:
        self._command = list(command)
        self._environments = environments
        self._grace = grace
        self._selector = selectors.DefaultSelector()
        self._children: list[Child] = []
        self._handlers: dict[int, object] = {}
        self._signals: list[int] = []

    def __enter__(self) -> Children:
        adopt_orphans()
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, say
                self._handlers[number] = signal.signal(number, self._on_signal)
        try:
            for rank, environment in self._environments.items():
                self._start(rank, environment)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for child in self._children:
            if not child.ended():
                child.signal(signal.SIGKILL)
        for child in self._children:
            while not child.ended():
                time.sleep(0.01)
        kill_orphans()
        with contextlib.suppress(OSError):  # the reader of our output is gone
            while self._read(0.0):
                pass
        self._selector.close()
        for child in self._children:
            for pipe in (child.process.stdout, child.process.stderr):
                if pipe is not None:
                    pipe.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def watch(
        self, on_failure: Callable[[Child], None], stop: Callable[[], bool] = lambda: False
    ) -> list[Child]:
        """Wait until all have ended: of themselves, or ``grace`` seconds after the first failure,
        a signal to the launcher, or ``stop()``.

        ``on_failure`` is called at once for the rank that failed first. Returned are all that
        failed of themselves, in the order in which they did.
        """
        failed: list[Child] = []
        end: float | None = None
        while True:
            running = [child for child in self._children if not child.ended()]
            new = new_failures(self._children, failed)
            if new and not failed and not self._signals:
                on_failure(new[0])
            failed += new
            if not running:
                return failed
            if end is None and (failed or self._signals or stop()):
                end = time.monotonic() + self._grace
                for number in self._signals[:1]:
                    for child in running:
                        child.signal(number)
            if end is not None and (time.monotonic() > end or len(self._signals) > 1):
                for child in running:
                    child.killed = True
                    child.signal(signal.SIGKILL)
            self._read(NAP)

    @property
    def signalled(self) -> int:
        """The signal that the launcher was sent; 0 for none."""
        return self._signals[0] if self._signals else 0

    @property
    def killed(self) -> list[int]:
        """The ranks that did not end in time."""
        return [child.rank for child in self._children if child.killed]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _start(self, rank: int, environment: Mapping[str, str]) -> None:
        launcher = os.getpid()
        process = subprocess.Popen(
            self._command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: die_with(launcher),  # it calls prctl and nothing else
        )
        child = Child(rank, process)
        self._children.append(child)
        for pipe, to in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (child, to))

    def _read(self, timeout: float) -> bool:
        """Print what has come, and at the end of a pipe what is left of a line; whether any."""
        if not self._selector.get_map():
            time.sleep(timeout)
            return False
        ready = self._selector.select(timeout)
        for key, _ in ready:
            pipe, (child, to) = key.fileobj, key.data
            part = pipe.read(LINE_LIMIT)  # type: ignore[union-attr]
            *lines, rest = (child.partial.get(pipe, b"") + (part or b"")).split(b"\n")
            if rest and (not part or len(rest) > LINE_LIMIT):
                lines, rest = [*lines, rest], b""
            child.partial[pipe] = rest
            show(child.rank, lines, to)
            if part == b"":
                self._selector.unregister(pipe)
        return bool(ready)


def show(rank: int, lines: Sequence[bytes], to: TextIO) -> None:
    """Print lines of a rank behind its number."""
    for line in lines:
        to.write(f"[{rank}] {line.decode(errors='replace')}\n")
    to.flush()


def new_failures(children: Sequence[Child], known: Sequence[Child]) -> list[Child]:
    """Who has failed since: those that a signal ended before those that noticed it."""
    found = [c for c in children if c.status and not c.killed and c not in known]
    return sorted(found, key=lambda child: child.status > 0 if child.status else True)


def describe(child: Child) -> str:
    """How a rank ended: ``rank 1 was killed by SIGKILL``."""
    status = child.status or 0
    if status == RESTART_ME:
        return f"rank {child.rank} asks for a restart (status {status})"
    if status >= 0:
        return f"rank {child.rank} ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"rank {child.rank} was killed by {name}"


def shell_status(child: Child) -> int:
    """The status as a shell gives it: 128 and the number of the signal."""
    status = child.status or 0
    return status if status >= 0 else 128 - status


# ---- Linux only: nobody outlives the launcher ----------------------------------------------------


def die_with(launcher: int) -> None:
    """In the child: have the kernel kill it when the launcher ends in whatever way."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:  # it ended before the call
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every process that a rank leaves behind."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_orphans() -> None:
    """Kill and reap what the ranks left behind; none of it is ours otherwise."""
    while _libc is not None:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                found = [int(number) for number in file.read().split()]
        except OSError:
            return
        if not found:
            return
        for number in found:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
