"""EarlyStop: end a run when a metric has stopped improving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fl_nn.errors import StateDictError, TrainingError
from fl_nn.settings import WHOLE, is_number
from fl_nn.training.callback import Callback, better, check_mode, figure

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class EarlyStop(Callback):
    """Stops when `monitor`, a figure of the history, was no better than its best by `min_delta` for
    `patience` epochs in a row (Prechelt, 1998).

    mode   "min": smaller is better; "max": larger is

    A run that is resumed counts on; one that had stopped stays stopped.
    """

    def __init__(
        self,
        monitor: str = "valid_loss",
        patience: int = 3,
        *,
        mode: str = "min",
        min_delta: float = 0.0,
    ) -> None:
        if not WHOLE.fits(patience) or patience < 1 or not min_delta >= 0.0:
            raise TrainingError(
                f"[EarlyStop] patience={patience!r}, min_delta={min_delta!r}: give at least one "
                "epoch, and a number of at least 0"
            )
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.mode = check_mode(mode, "EarlyStop")
        #: The best value so far, and the epochs since.
        self.best, self.waited = math.nan, 0

    def on_fit_start(self, trainer: Trainer) -> None:
        self._stop_if_over(trainer)

    def on_epoch_end(self, trainer: Trainer, record: dict[str, Any]) -> None:
        value = figure(record, self.monitor, "EarlyStop")
        margin = self.min_delta if self.mode == "min" else -self.min_delta
        if better(value + margin, self.best, self.mode):
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        self._stop_if_over(trainer)

    def _stop_if_over(self, trainer: Trainer) -> None:
        if self.waited >= self.patience:
            trainer.stop(
                f"{self.monitor} is no better than {self.best:.6g} since {self.waited} epochs"
            )

    def state_dict(self) -> dict[str, Any]:
        """Plain values: the best, and the epochs since."""
        return {"best": None if math.isnan(self.best) else self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError, and changes nothing, when it does not fit."""
        best, waited = state.get("best"), state.get("waited")
        if not (best is None or is_number(best)) or not WHOLE.fits(waited):
            raise StateDictError("this is not the state of an EarlyStop")
        self.best, self.waited = (math.nan if best is None else float(best)), int(waited or 0)

    def __repr__(self) -> str:
        return f"EarlyStop({self.monitor!r}, patience={self.patience}, waited={self.waited})"
