"""TensorBoard: a callback that writes metrics for TensorBoard."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_nn.errors import TrainingError
from fl_nn.training.callback import Callback

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class TensorBoard(Callback):
    """Writes event files to `folder` (`tensorboard` in `trainer.out`), on rank 0:

    step/...    loss, lr, samples_per_second and the figures of callbacks, every `every` steps
    epoch/...   what the history has, over steps

    A run that is resumed hides what was written after its checkpoint. Needs the extra
    `fl-nn[tensorboard]` (tensorboardX); TrainingError when it is missing.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, every: int = 1) -> None:
        if every < 1:
            raise TrainingError(f"[TensorBoard] every={every}: give a number of steps above 0")
        self.folder, self.every = None if folder is None else Path(folder), every
        self._writer_class = _summary_writer()
        self._writer: Any = None
        self._last = (0.0, 0)

    def on_fit_start(self, trainer: Trainer) -> None:
        folder = self.folder
        if folder is None:
            if trainer.out is None:
                raise TrainingError("[TensorBoard] the Trainer has no out folder: give a folder")
            folder = trainer.out / "tensorboard"
        if trainer.communicator.rank == 0:
            self._writer = self._writer_class(str(folder), purge_step=trainer.step + 1)
        self._last = (time.monotonic(), trainer.samples)

    def on_step(self, trainer: Trainer) -> None:
        if self._writer is None or trainer.step % self.every:
            return
        now, samples = time.monotonic(), trainer.samples
        rate = (samples - self._last[1]) / max(now - self._last[0], 1e-9)
        self._last = (now, samples)
        own = {"loss": trainer.last_loss, "lr": trainer.optimizer.lr, "samples_per_second": rate}
        for name, value in {**own, **trainer.figures}.items():
            self._writer.add_scalar(f"step/{name}", float(value), trainer.step)

    def on_epoch_end(self, trainer: Trainer, record: dict[str, Any]) -> None:
        if self._writer is None:
            return
        for name, value in record.items():
            if isinstance(value, float):
                self._writer.add_scalar(f"epoch/{name}", value, trainer.step)
        self._writer.flush()
        self._last = (time.monotonic(), trainer.samples)  # validation is not throughput

    def on_fit_end(self, trainer: Trainer) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _summary_writer() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as missing:
        raise TrainingError(
            '[TensorBoard] needs tensorboardX: pip install "fl-nn[tensorboard]"'
        ) from missing
    return SummaryWriter
