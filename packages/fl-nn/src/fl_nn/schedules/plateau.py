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
    """Multiply the rates by `factor`, not below `min_lr`, when a metric stops improving.

    `step(metric)` is called once per epoch. Rates are reduced when the metric has not improved for
    more than `patience` calls, as in PyTorch.

    mode             "min": a smaller metric is better; "max": a larger one
    threshold        minimum improvement, relative to the best metric or absolute: `threshold_mode`
                     "rel" or "abs"
    cooldown         calls after a reduction that are not counted
    min_lr           one rate, or one for each group
    eps              smaller reductions are not made

    A metric that is NaN is no improvement. The current rate of each group is multiplied, so changes
    made elsewhere persist.
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
        #: The best metric so far, the calls since then, and the remaining calls of the cooldown.
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
        """Rates depend on metrics, not on the number of steps alone: nothing to set."""

    def step(self, metrics: float) -> None:  # type: ignore[override]
        """Record the metric of one more epoch; reduce the rates if it stopped improving."""
        metric = float(metrics)
        self.last_epoch += 1
        self.num_bad_epochs += 1
        if self._better(metric):
            self.best, self.num_bad_epochs = metric, 0
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _better(self, metric: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.best is None:
            return sign * metric > -math.inf
        if self.threshold_mode == "rel":
            return sign * metric > sign * self.best * (1.0 + sign * self.threshold)
        return sign * metric > sign * (self.best + sign * self.threshold)

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        least = self.min_lr if isinstance(self.min_lr, tuple) else [self.min_lr] * len(groups)
        for group, low in zip(groups, least):
            rate = max(group["lr"] * self.factor, low)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate
