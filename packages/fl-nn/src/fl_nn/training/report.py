"""Reports of a run: progress bar and lines for people, JSON records for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fl_nn._version import __version__
from fl_nn.training.log import JsonLog
from fl_nn.training.progress import Progress

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class Report:
    """On rank 0, progress on `stream` and records in the JSON lines of `log`. Nothing is said any
    more, and the run goes on, where nobody hears it: the terminal is closed, or the pipe is.

    stream      None: say nothing
    log         None: write nothing
    every       log every so many steps (0: epochs alone)
    goes_on_at  the length at which the log goes on, once; None: it begins. A log is changed by
                `fit` alone, which has the folder to itself
    """

    def __init__(self, stream: TextIO | None, log: Path | None, every: int) -> None:
        self.stream, self.every, self._begun = stream, every, False
        self.goes_on_at: int | None = None
        self.log = None if log is None else JsonLog(log)
        self._bar: Progress | None = None
        self._since = (0.0, 0)
        self._rate = 0.0

    def begin(self, trainer: Trainer) -> None:
        """`fit` begins."""
        if self.log is not None and self.goes_on_at is not None:
            self.log.rewind(self.goes_on_at)
        elif self.log is not None and not self._begun:
            self.log.clear()
            self.log.write(_introduction(trainer))
        self._begun, self.goes_on_at = True, None
        if trainer.compiled and trainer.average is not None:
            self.not_compiled("several ranks average gradients inside of the step")
        self._bar = None  # another cell of a notebook has another one

    def begin_epoch(self, trainer: Trainer) -> None:
        self._since = (time.monotonic(), trainer.samples)
        if self.stream is not None:
            work = f"epoch {trainer.epoch + 1}/{trainer.epochs}", trainer.batches, trainer.batch
            if self._bar is None:
                self._bar = Progress(*work, self.stream)
            else:
                self._bar.restart(*work)

    def step(self, trainer: Trainer) -> None:
        """A step was made."""
        if self.log is not None and self.every and trainer.step % self.every == 0:
            record = {"event": "step", "step": trainer.step, "loss": trainer.last_loss}
            self.log.write(record | {name: float(x) for name, x in trainer.figures.items()})
        if self._bar is not None:
            samples = trainer.samples - self._since[1]
            with self._while_heard():
                self._bar.update(trainer.batch, f"loss {trainer.last_loss:.4f}", samples)

    def skip(self, trainer: Trainer) -> None:
        """The scaler made no step."""
        if self.log is not None and self.every and trainer.scaler is not None:
            record = {"event": "skip", "step": trainer.step, "batch": trainer.batch}
            self.log.write(record | {"factor": trainer.scaler.factor})

    def not_compiled(self, reason: str) -> None:
        """Steps run without a graph."""
        if self.log is not None and self._begun:
            self.log.write({"event": "not compiled", "reason": reason})
        self.say(f"not compiled: {reason}")

    def trained(self, trainer: Trainer) -> None:
        """The batches of an epoch, or of what was left of it, are through."""
        seconds, samples = time.monotonic() - self._since[0], trainer.samples - self._since[1]
        self._rate = samples / max(seconds, 1e-9)
        if self._bar is not None:
            with self._while_heard():
                self._bar.finish()

    def end_epoch(self, trainer: Trainer, record: Mapping[str, Any]) -> None:
        """An epoch is in the history."""
        if self.log is not None:
            self.log.write({"event": "epoch", **record})
        figures = "  ".join(f"{k} {v:.4g}" for k, v in record.items() if "_" in k)
        time_taken = f"{record['seconds']:.1f} s"
        if self._rate:  # none where the epoch was complete but for its end when the run was resumed
            time_taken += f"  {self._rate:.4g} samples/s"
        self.say(f"epoch {trainer.epoch}/{trainer.epochs}  {figures}  {time_taken}")

    def say(self, line: str) -> None:
        """A line for people."""
        if self.stream is not None:
            with self._while_heard():
                print(line, file=self.stream, flush=True)

    @contextmanager
    def _while_heard(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.stream = self._bar = None


def report_of(
    lead: bool, progress: bool, stream: TextIO | None, log: Path | None, every: int
) -> Report:
    """The Report of a rank: only the `lead` speaks and writes."""
    return Report(
        (stream or sys.stderr) if progress and lead else None, log if lead else None, every
    )


def _introduction(trainer: Trainer) -> dict[str, Any]:
    parameters = trainer.optimizer.parameters
    return {
        "event": "start",
        "fl_nn": __version__,
        "backend": parameters[0].backend.name,
        "dtype": str(parameters[0].dtype),
        "ranks": trainer.communicator.world_size,
        "parameters": sum(parameter.size for parameter in parameters),
        "optimizer": repr(trainer.optimizer),
        "batches": trainer.batches,
        "epochs": trainer.epochs,
        "metadata": dict(trainer.metadata),
    }
