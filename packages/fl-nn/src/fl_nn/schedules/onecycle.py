"""OneCycleLR: a rise to a maximal rate and a fall, with the opposite momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fl_nn.optim import Optimizer
from fl_nn.schedules.schedule import LRScheduler
from fl_nn.settings import ABOVE_ZERO, COUNT, FLAG, FRACTION, Kind, is_number

STRATEGIES = {
    "cos": lambda start, end, part: end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * part)),
    "linear": lambda start, end, part: start + (end - start) * part,
}


def _rates(value: Any) -> bool:
    values = value if isinstance(value, (tuple, list)) else [value]
    return len(values) > 0 and all(map(ABOVE_ZERO.fits, values))


class OneCycleLR(LRScheduler):
    """Smith & Topin, 2018, as PyTorch's OneCycleLR: from max_lr / div_factor to `max_lr` in the
    first `pct_start` of `total_steps`, then to 1 / final_div_factor of the first rate. With
    `three_phase` the way down first mirrors the way up. Past the end the last rate stays.

    max_lr           one rate, or one for each group
    cycle_momentum   momentum (or the first beta) goes from `max_momentum` to `base_momentum` and
                     back
    """

    kinds = {
        "max_lr": Kind("a number above 0, or one for each group", _rates),
        "total_steps": COUNT,
        "pct_start": Kind("a number in (0, 1)", lambda x: FRACTION.fits(x) and x > 0),
        "anneal_strategy": Kind("'cos' or 'linear'", lambda x: x in ("cos", "linear")),
        "cycle_momentum": FLAG,
        "base_momentum": FRACTION,
        "max_momentum": FRACTION,
        "div_factor": ABOVE_ZERO,
        "final_div_factor": ABOVE_ZERO,
        "three_phase": FLAG,
    }
    max_lr: float | tuple[float, ...]
    total_steps: int
    pct_start: float
    anneal_strategy: str
    cycle_momentum: bool
    base_momentum: float
    max_momentum: float
    div_factor: float
    final_div_factor: float
    three_phase: bool

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int,
        *,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self.sets = ("lr", "betas", "momentum") if cycle_momentum else ("lr",)
        super().__init__(
            optimizer,
            max_lr=tuple(max_lr) if isinstance(max_lr, Sequence) else max_lr,
            total_steps=total_steps,
            pct_start=pct_start,
            anneal_strategy=anneal_strategy,
            cycle_momentum=cycle_momentum,
            base_momentum=base_momentum,
            max_momentum=max_momentum,
            div_factor=div_factor,
            final_div_factor=final_div_factor,
            three_phase=three_phase,
        )

    def problems(self, settings: Mapping[str, Any]) -> list[str]:
        found = super().problems(settings)
        if found:
            return found
        groups, rates = self.optimizer.param_groups, settings["max_lr"]
        if not is_number(rates) and len(rates) != len(groups):
            found.append(f"max_lr has {len(rates)} rates for {len(groups)} groups")
        if settings["cycle_momentum"] and not {"momentum", "betas"} & groups[0].keys():
            found.append("the optimizer has no momentum: pass cycle_momentum=False")
        return found

    def apply(self, step: int) -> None:
        for group, highest in zip(self.optimizer.param_groups, self._highest()):
            first = highest / self.div_factor
            last = first / self.final_div_factor
            group["lr"] = self._at(step, first, highest, last)
            if self.cycle_momentum:
                high, low = self.max_momentum, self.base_momentum
                momentum = self._at(step, high, low, high)
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum

    def _highest(self) -> Sequence[float]:
        if isinstance(self.max_lr, tuple):
            return self.max_lr
        return [self.max_lr] * len(self.optimizer.param_groups)

    def _at(self, step: int, first: float, middle: float, last: float) -> float:
        peak = self.pct_start * self.total_steps - 1.0
        points = [(0.0, first), (peak, middle), (self.total_steps - 1.0, last)]
        if self.three_phase:
            points.insert(2, (2.0 * peak, first))
        for (begin, start), (end, stop) in zip(points, points[1:]):
            if step <= end or end == points[-1][0]:
                part = (step - begin) / (end - begin) if end > begin else 1.0
                return STRATEGIES[self.anneal_strategy](start, stop, min(part, 1.0))
        return last
