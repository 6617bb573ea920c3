"""ReduceLROnPlateau: lower rates when a metric stops improving."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fl_nn.optim import Optimizer
from fl_nn.schedules.schedule import LRScheduler
from fl_nn.settings import AT_LEAST_ZERO, FRACTION, WHOLE, Kind, is_number


def _rates(value: Any) -> bool:
    values = value if isinstance(value, (tuple, list)) else [value]
    return all(map(AT_LEAST_ZERO.fits, values))


class ReduceLROnPlateau(LRScheduler):
    """Times `factor`, but not below `min_lr`, when `step(figure)` has not seen a better figure for
    more than `patience` calls, usually epochs. As PyTorch's.

    mode             "min": smaller is better; "max": larger is
    threshold        by how much better, as a share of the best ("rel") or as it is ("abs")
    cooldown         calls after a reduction that do not count
    min_lr           one rate, or one for each group
    eps              smaller reductions are not made

    A figure that is NaN is not better. It multiplies the present rates: what sets them otherwise,
    stays set.
    """

    kinds = {
        "mode": Kind("'min' or 'max'", lambda x: x in ("min", "max")),
        "factor": FRACTION,
        "patience": WHOLE,
        "threshold": AT_LEAST_ZERO,
        "threshold_mode": Kind("'rel' or 'abs'", lambda x: x in ("rel", "abs")),
        "cooldown": WHOLE,
        "min_lr": Kind("a number of at least 0, or one for each group", _rates),
        "eps": AT_LEAST_ZERO,
    }
    counters = {
        "last_epoch": WHOLE,
        "best": Kind("a number or None", lambda x: x is None or is_number(x)),
        "num_bad_epochs": WHOLE,
        "cooldown_counter": WHOLE,
    }
    mode: str
    factor: float
    patience: int
    threshold: float
    threshold_mode: str
    cooldown: int
    min_lr: float | tuple[float, ...]
    eps: float

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        self.optimizer = optimizer
        #: The best figure so far, calls since then, and calls of the cooldown to come.
        self.best: float | None = None
        self.num_bad_epochs = self.cooldown_counter = 0
        super().__init__(
            optimizer,
            mode=mode,
            factor=factor,
            patience=patience,
            threshold=threshold,
            threshold_mode=threshold_mode,
            cooldown=cooldown,
            min_lr=tuple(min_lr) if isinstance(min_lr, Sequence) else min_lr,
            eps=eps,
        )

    def problems(self, settings: Mapping[str, Any]) -> list[str]:
        found, count = super().problems(settings), len(self.optimizer.param_groups)
        if not found and not is_number(settings["min_lr"]) and len(settings["min_lr"]) != count:
            found.append(f"min_lr has {len(settings['min_lr'])} rates for {count} groups")
        return found

    def apply(self, step: int) -> None:
        """Rates depend on figures, not on the number of steps alone: nothing to set."""

    def step(self, metrics: float) -> None:  # type: ignore[override]
        """Note the figure of one more epoch; lower the rates if it is time."""
        figure = float(metrics)
        self.last_epoch += 1
        self.num_bad_epochs += 1
        if self._better(figure):
            self.best, self.num_bad_epochs = figure, 0
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _better(self, figure: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.best is None:
            return sign * figure > -math.inf
        if self.threshold_mode == "rel":
            return sign * figure > sign * self.best * (1.0 + sign * self.threshold)
        return sign * figure > sign * (self.best + sign * self.threshold)

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        least = self.min_lr if isinstance(self.min_lr, tuple) else [self.min_lr] * len(groups)
        for group, low in zip(groups, least):
            rate = max(group["lr"] * self.factor, low)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate
