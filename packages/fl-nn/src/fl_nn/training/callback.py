"""Callback: the hooks of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_nn.errors import TrainingError
from fl_tensor.annotations import Checked

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class Callback(Checked):
    """Hooks of a run; a subclass writes those that it needs:

        class Halve(nn.Callback):
            def on_step(self, trainer):
                trainer.optimizer.lr /= 2

    Every rank calls them, callback after callback in the order given. `trainer.stop(reason)` ends
    the run, `trainer.figures` is logged with the step. A callback with `state_dict` and
    `load_state_dict` (`Stateful`) is part of checkpoints under its `name`, by default that of the
    class: give two of one class names of their own.
    """

    name = ""

    def on_fit_start(self, trainer: Trainer) -> None:
        """`fit` begins, after `resume` if there was one."""

    def on_epoch_start(self, trainer: Trainer) -> None:
        """An epoch begins, or goes on at `trainer.batch` after `resume`."""

    def before_step(self, trainer: Trainer) -> None:
        """The gradients are in place: summed over ranks, and with a scaler unscaled and finite.
        Without one it shows after the step, which is not made, whether they are finite."""

    def on_step(self, trainer: Trainer) -> None:
        """A step was made, schedule and averages included."""

    def on_skip(self, trainer: Trainer) -> None:
        """The loss scaler made no step of a batch."""

    def on_epoch_end(self, trainer: Trainer, record: dict[str, Any]) -> None:
        """An epoch was trained and validated; `record` is what the history will have: `epoch`,
        `step`, `lr`, `train_loss`, `valid_loss` and the like. More plain values may be added."""

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """A checkpoint is complete at `path`."""

    def on_fit_end(self, trainer: Trainer) -> None:
        """`fit` ends, for whatever reason: close files."""


def states_of(callbacks: list[Callback]) -> dict[str, Any]:
    """The callbacks that checkpoints keep, by name. Raises TrainingError for names that are not
    unique."""
    found: dict[str, Any] = {}
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise TrainingError(
                f"[Trainer] {callback!r} is no Callback: give an object of a class derived from it"
            )
        if hasattr(callback, "state_dict"):
            name = callback.name or type(callback).__name__
            if name in found:
                raise TrainingError(
                    f"[Trainer] two callbacks are called {name!r}: set the `name` of one of them"
                )
            found[name] = callback
    return found


def metric(record: Mapping[str, Any], name: str, caller: str) -> float:
    """A figure of an epoch. Raises TrainingError when there is none of this name."""
    value = record.get(name)
    if not isinstance(value, (int, float)):
        known = ", ".join(key for key, x in record.items() if isinstance(x, float))
        raise TrainingError(
            f"[{caller}] an epoch has no figure {name!r}, but {known}; valid_... needs validation "
            "batches: fit(train, valid, epochs=...)"
        )
    return float(value)


def better(value: float, than: float, mode: str) -> bool:
    """Whether `value` is better; NaN is worse than anything."""
    if value != value:
        return False
    return than != than or (value < than if mode == "min" else value > than)


def check_mode(mode: str, caller: str) -> str:
    """`mode`, if it is "min" or "max"."""
    if mode not in ("min", "max"):
        raise TrainingError(f"[{caller}] mode={mode!r}: give 'min' (smaller is better) or 'max'")
    return mode
