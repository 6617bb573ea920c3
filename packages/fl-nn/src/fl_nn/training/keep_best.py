"""KeepBest: the checkpoints of the best epochs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_nn import distributed
from fl_nn.errors import StateDictError, TrainingError
from fl_nn.settings import COUNT, is_number
from fl_nn.training.callback import Callback, better, check_mode, metric
from fl_tensor.files import target_of

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class KeepBest(Callback):
    """Keeps the checkpoints of the `count` epochs with the best `monitor`, a figure of the history,
    as `best-<epoch>.safetensors` in `trainer.out`; each record of the history lists them, best
    first, under "best".

    mode   "min": smaller is better; "max": larger is

    Give an `EarlyStop` the same `monitor`, as both have by default. At the end of `fit` it says
    which epoch is the best; the model keeps the weights of the last one.

    The files are whole checkpoints, to resume from or to load weights of. A file appears complete,
    and is removed only once a checkpoint no longer lists it: wherever a run is killed, what its
    checkpoint lists is there as soon as it goes on.
    """

    def __init__(self, count: int = 1, monitor: str = "valid_loss", *, mode: str = "min") -> None:
        if not COUNT.fits(count):
            raise TrainingError(f"[KeepBest] count={count!r}: give {COUNT.words}")
        self.count, self.monitor = count, monitor
        self.mode = check_mode(mode, "KeepBest")
        #: (epoch, value) of the epochs kept, best first; of equals the earlier one.
        self.kept: list[tuple[int, float]] = []

    def on_fit_start(self, trainer: Trainer) -> None:
        if trainer.out is None:
            raise TrainingError("[KeepBest] the Trainer has no out folder to keep checkpoints in")
        present = trainer.out / file_of(trainer.epoch)
        missing = trainer.communicator.rank == 0 and self._is_kept(trainer) and not present.exists()
        # Killed after the checkpoint that lists it, and before it had its name.
        if not distributed.all_agree(trainer.communicator, not missing):
            trainer.save(present)
        self._prune(trainer)

    def on_epoch_end(self, trainer: Trainer, record: dict[str, Any]) -> None:
        value = metric(record, self.monitor, "KeepBest")
        place = 0
        while place < len(self.kept) and not better(value, self.kept[place][1], self.mode):
            place += 1
        if value == value:
            self.kept.insert(place, (record["epoch"], value))
            del self.kept[self.count :]
        record["best"] = [file_of(epoch) for epoch, _ in self.kept]

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        if trainer.out is None or path != trainer.checkpoint:
            return
        if trainer.communicator.rank == 0 and self._is_kept(trainer):
            _share(path, trainer.out / file_of(trainer.epoch))
        self._prune(trainer)

    def on_fit_end(self, trainer: Trainer) -> None:
        if self.kept:
            epoch, value = self.kept[0]
            trainer.report.say(
                f"best {self.monitor}: {value:.6g} of epoch {epoch}, kept in {file_of(epoch)}; the "
                f"model has the weights of epoch {trainer.epoch}"
            )

    def _is_kept(self, trainer: Trainer) -> bool:
        """Whether the trainer is at the end of an epoch that is kept."""
        return trainer.batch == 0 and trainer.epoch in {epoch for epoch, _ in self.kept}

    def _prune(self, trainer: Trainer) -> None:
        wanted = {file_of(epoch) for epoch, _ in self.kept}
        if trainer.communicator.rank == 0 and trainer.out is not None:
            for old in trainer.out.glob("best-*.safetensors"):
                if old.name not in wanted:
                    old.unlink()

    def state_dict(self) -> dict[str, Any]:
        """Plain values: the epochs kept, with their values."""
        return {"kept": [list(pair) for pair in self.kept]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError, and changes nothing, when it does not fit."""
        kept = state.get("kept")
        if not isinstance(kept, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and COUNT.fits(pair[0]) and is_number(pair[1])
            for pair in kept
        ):
            raise StateDictError("this is not the state of a KeepBest")
        self.kept = [(epoch, value) for epoch, value in kept]

    def __repr__(self) -> str:
        return f"KeepBest({self.count}, {self.monitor!r}, kept={[e for e, _ in self.kept]})"


def file_of(epoch: int) -> str:
    """The name of the file of an epoch, counted from 1."""
    return f"best-{epoch:04d}.safetensors"


def _share(path: Path, target: Path) -> None:
    """Give the file `path` another name, at once complete. Checkpoints are replaced, never written
    in place, so that no bytes need to be copied where the file system has links."""
    path, target = path.resolve(), target_of(target)
    if target.exists() and target.samefile(path):
        return
    new = target.with_name(".best.safetensors")
    new.unlink(missing_ok=True)
    try:
        os.link(path, new)
    except OSError:
        shutil.copyfile(path, new)
    os.replace(new, target)
