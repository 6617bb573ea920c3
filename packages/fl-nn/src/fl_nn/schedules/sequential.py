"""SequentialLR: one schedule after another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from fl_nn.errors import ModuleError
from fl_nn.optim import Optimizer
from fl_nn.schedules.plateau import ReduceLROnPlateau
from fl_nn.schedules.schedule import LRScheduler
from fl_nn.schedules.simple import MILESTONES


class SequentialLR(LRScheduler):
    """The first of `schedulers` until step `milestones[0]`, where the second begins with its step
    0, and so on. A warm-up and then a cosine:

        warm_up = nn.LinearLR(optimizer, 0.01, total_iters=500)
        cosine = nn.CosineAnnealingLR(optimizer, T_max=10_000)
        schedule = nn.SequentialLR(optimizer, [warm_up, cosine], milestones=[500])

    The parts are not stepped themselves.
    """

    kinds = {"milestones": MILESTONES}
    milestones: tuple[int, ...]

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]
    ) -> None:
        self.schedulers = list(schedulers)
        for part in self.schedulers:
            if part.optimizer is not optimizer:
                raise ModuleError(f"[SequentialLR] {part!r} is of another optimizer")
            if isinstance(part, ReduceLROnPlateau):
                raise ModuleError("[SequentialLR] ReduceLROnPlateau needs a figure for every step")
        super().__init__(optimizer, milestones=tuple(milestones))

    def problems(self, settings: Mapping[str, Any]) -> list[str]:
        found = super().problems(settings)
        if not found and len(settings["milestones"]) != len(self.schedulers) - 1:
            count = len(settings["milestones"])
            found.append(f"{len(self.schedulers)} schedulers cannot have {count} milestones")
        return found

    def apply(self, step: int) -> None:
        number = bisect_right(self.milestones, step)
        start = self.milestones[number - 1] if number else 0
        self.schedulers[number].apply(step - start)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for part, saved in zip(self.schedulers, state["schedulers"]):
            part.load_state_dict(saved)

    def _state_problems(self, state: Mapping[str, Any]) -> list[str]:
        found, saved = super()._state_problems(state), state.get("schedulers")
        if not isinstance(saved, list) or len(saved) != len(self.schedulers):
            return [*found, "it has other schedulers"]
        for number, (part, one) in enumerate(zip(self.schedulers, saved)):
            words = part._state_problems(one) if isinstance(one, Mapping) else ["it is missing"]
            found += [f"scheduler {number}: {problem}" for problem in words]
        return found
