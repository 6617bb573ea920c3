"""Graceful handling of SIGINT, SIGTERM and SIGHUP: the run ends after its step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(SystemExit):
    """A run that SIGINT, SIGTERM or SIGHUP ended after a step. Uncaught, the process exits with
    128 + the number of the signal, as shells have it: 130 for SIGINT, 143 for SIGTERM, 129 for
    SIGHUP, which comes when the terminal is closed.

    No FlError, and no Exception: what handles failures and tries again must not swallow it.

    signal      the number of the signal
    checkpoint  where the run can be resumed from, or None if it has no out folder
    """

    def __init__(self, number: int, step: int, checkpoint: Path | None) -> None:
        super().__init__(128 + number)
        self.signal, self.step, self.checkpoint = number, step, checkpoint

    def __reduce__(self) -> tuple[Any, ...]:
        return Interrupted, (self.signal, self.step, self.checkpoint)

    def __str__(self) -> str:
        kept = "nothing was written: there is no out folder"
        if self.checkpoint is not None:
            kept = f"resume() goes on from {self.checkpoint}"
        return f"stopped by {signal.Signals(self.signal).name} after step {self.step}; {kept}"


class StopSignals:
    """What `stop_signals` gives: `received` is the number of the signal that came, or None."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def _install(self) -> None:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # `nohup` and shells ignore on purpose
                self._before[number] = before
                signal.signal(number, self._handle)

    def _restore(self) -> None:
        for number, before in self._before.items():
            # None: a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before = {}

    def _handle(self, number: int, frame: object) -> None:
        if self.received is None:
            self.received = number
        elif number != signal.SIGHUP:  # of which shell and system may both send one
            self._restore()
            signal.raise_signal(number)


_CURRENT: ContextVar[StopSignals | None] = ContextVar("fl_nn_stop_signals", default=None)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Inside the block the first SIGINT, SIGTERM or SIGHUP is noted and no more. A second SIGINT or
    SIGTERM does at once what it did before the block. Afterwards the handlers are as they were.

    `Trainer.fit` enters it. Enter it yourself, in the main thread, around ranks in threads
    (`fl_dist.threads.run`): Python delivers signals to the main thread alone. An inner block shares
    the outer one; without any in the main thread, signals act as ever. A signal that came and that
    no exception answered (`Interrupted`) acts at the end of the block.
    """
    outer = _CURRENT.get()
    if outer is not None:
        yield outer
        return
    signals = StopSignals()
    token = _CURRENT.set(signals)
    try:
        if threading.current_thread() is threading.main_thread():
            signals._install()
        yield signals
    except BaseException:
        signals.received = None
        raise
    finally:
        signals._restore()
        _CURRENT.reset(token)
        if signals.received is not None:
            signal.raise_signal(signals.received)
