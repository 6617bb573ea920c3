"""Simple schedules: constant, linear, polynomial, exponential, stepwise, and others."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from fl_nn.optim import Optimizer
from fl_nn.schedules.schedule import LRScheduler
from fl_nn.settings import ABOVE_ZERO, AT_LEAST_ZERO, COUNT, Kind

MILESTONES = Kind(
    "whole numbers of at least 0 in ascending order",
    lambda x: (
        isinstance(x, (tuple, list))
        and all(type(n) is int and n >= 0 for n in x)
        and list(x) == sorted(x)
    ),
)


class ConstantLR(LRScheduler):
    """base * factor for the first `total_iters` steps, then base."""

    kinds = {"factor": AT_LEAST_ZERO, "total_iters": COUNT}
    factor: float
    total_iters: int

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3.0, total_iters: int = 5
    ) -> None:
        super().__init__(optimizer, factor=factor, total_iters=total_iters)

    def rate(self, step: int, base: float) -> float:
        return base * self.factor if step < self.total_iters else base


class LinearLR(LRScheduler):
    """From base * start_factor to base * end_factor in `total_iters` equal steps: a warm-up."""

    kinds = {"start_factor": AT_LEAST_ZERO, "end_factor": AT_LEAST_ZERO, "total_iters": COUNT}
    start_factor: float
    end_factor: float
    total_iters: int

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3.0,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        super().__init__(
            optimizer, start_factor=start_factor, end_factor=end_factor, total_iters=total_iters
        )

    def rate(self, step: int, base: float) -> float:
        done = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class PolynomialLR(LRScheduler):
    """base * (1 - step / total_iters)^power, and 0 from then on."""

    kinds = {"total_iters": COUNT, "power": ABOVE_ZERO}
    total_iters: int
    power: float

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        super().__init__(optimizer, total_iters=total_iters, power=power)

    def rate(self, step: int, base: float) -> float:
        return base * (1.0 - min(step, self.total_iters) / self.total_iters) ** self.power


class ExponentialLR(LRScheduler):
    """base * gamma^step."""

    kinds = {"gamma": ABOVE_ZERO}
    gamma: float

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        super().__init__(optimizer, gamma=gamma)

    def rate(self, step: int, base: float) -> float:
        return base * self.gamma**step


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` steps."""

    kinds = {"step_size": COUNT, "gamma": ABOVE_ZERO}
    step_size: int
    gamma: float

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        super().__init__(optimizer, step_size=step_size, gamma=gamma)

    def rate(self, step: int, base: float) -> float:
        return base * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the steps `milestones`."""

    kinds = {"milestones": MILESTONES, "gamma": ABOVE_ZERO}
    milestones: tuple[int, ...]
    gamma: float

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        super().__init__(optimizer, milestones=tuple(milestones), gamma=gamma)

    def rate(self, step: int, base: float) -> float:
        return base * self.gamma ** bisect_right(self.milestones, step)


class InverseSquareRootLR(LRScheduler):
    """Up to base in `warmup_steps` equal steps, then down with the inverse square root: with
    n = step + 1, base * min(n / warmup_steps, sqrt(warmup_steps / n)).

    The schedule of Vaswani et al., 2017 ("Noam") for a model of size d is that with a base of
    (d * warmup_steps)^-0.5.
    """

    kinds = {"warmup_steps": COUNT}
    warmup_steps: int

    def __init__(self, optimizer: Optimizer, warmup_steps: int = 4000) -> None:
        super().__init__(optimizer, warmup_steps=warmup_steps)

    def rate(self, step: int, base: float) -> float:
        done = (step + 1) / self.warmup_steps
        return base * min(done, 1.0 / math.sqrt(done))


class LambdaLR(LRScheduler):
    """base * lr_lambda(step). The function is no part of the state."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], Any]) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer)

    def rate(self, step: int, base: float) -> float:
        return base * self.lr_lambda(step)
