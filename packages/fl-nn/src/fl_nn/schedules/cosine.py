"""Cosine schedules, with and without restarts (Loshchilov & Hutter, 2017)."""

from __future__ import annotations

import math

from fl_nn.optim import Optimizer
from fl_nn.schedules.schedule import LRScheduler
from fl_nn.settings import AT_LEAST_ZERO, COUNT


def _between(high: float, low: float, part: float) -> float:
    """From `high` at part 0 to `low` at part 1."""
    return low + (high - low) * (1.0 + math.cos(math.pi * part)) / 2.0


class CosineAnnealingLR(LRScheduler):
    """From base to `eta_min` in `T_max` steps; then, as in PyTorch, up again on the same curve."""

    kinds = {"T_max": COUNT, "eta_min": AT_LEAST_ZERO}
    T_max: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        super().__init__(optimizer, T_max=T_max, eta_min=eta_min)

    def rate(self, step: int, base: float) -> float:
        return _between(base, self.eta_min, step / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """From base towards `eta_min` in `T_0` steps, then back to base at once and down again, each
    time in `T_mult` times as many steps."""

    kinds = {"T_0": COUNT, "T_mult": COUNT, "eta_min": AT_LEAST_ZERO}
    T_0: int
    T_mult: int
    eta_min: float

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0
    ) -> None:
        super().__init__(optimizer, T_0=T_0, T_mult=T_mult, eta_min=eta_min)

    def rate(self, step: int, base: float) -> float:
        period = self.T_0
        if self.T_mult == 1:
            step %= period
        while step >= period:
            step -= period
            period *= self.T_mult
        return _between(base, self.eta_min, step / period)
