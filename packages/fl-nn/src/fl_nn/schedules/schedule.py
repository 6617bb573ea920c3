"""LRScheduler: learning rates as a function of the number of steps.

A schedule is a formula, not a recursion: the rate of step n depends on n and on the rate that the
group began with ("initial_lr" in its settings). Nothing drifts, and a schedule can be one part of
another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fl_nn.errors import ModuleError, StateDictError
from fl_nn.optim import Optimizer
from fl_nn.settings import WHOLE, Kind, misfits, plain
from fl_tensor.annotations import Checked


class LRScheduler(Checked):
    """Sets the rate of every group when it is made, and again at every `step()`, which belongs
    after `optimizer.step()`.

    A subclass describes its settings (`kinds`; they become attributes) and writes `rate`. One
    schedule at a time: it overwrites what others, or assignments, have set.
    """

    #: What each setting may be.
    kinds: Mapping[str, Kind] = {}
    #: Settings of the optimizer that it changes from step to step.
    sets: tuple[str, ...] = ("lr",)
    #: Attributes that change from step to step.
    counters: Mapping[str, Kind] = {"last_epoch": WHOLE}

    def __init__(self, optimizer: Optimizer, **settings: Any) -> None:
        problems = self.problems(settings)
        if problems:
            raise ModuleError(f"[{type(self).__name__}] {'; '.join(problems)}")
        self.optimizer = optimizer
        for name, value in settings.items():
            setattr(self, name, plain(value))
        #: Steps done; PyTorch's name for it.
        self.last_epoch = 0
        _base_rates(optimizer)
        optimizer.scheduled.update(self.sets)
        self.apply(0)

    def rate(self, step: int, base: float) -> float:
        """The rate after `step` steps of a group that began with the rate `base`."""
        raise ModuleError(f"{type(self).__name__} defines no rate(); write it")

    def apply(self, step: int) -> None:
        """Give every group what it has after `step` steps."""
        for group, base in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = self.rate(step, base)

    def step(self) -> None:
        """Go on by one step."""
        self.last_epoch += 1
        self.apply(self.last_epoch)

    @property
    def base_lrs(self) -> list[float]:
        """The rates that the groups began with."""
        return _base_rates(self.optimizer)

    def get_last_lr(self) -> list[float]:
        """The present rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    # ---- state -------------------------------------------------------------------------------

    def problems(self, settings: Mapping[str, Any]) -> list[str]:
        """What is wrong with the settings, in words."""
        return misfits(self.kinds, settings)

    def state_dict(self) -> dict[str, Any]:
        """Plain values: `type`, `settings` and counters. Rates are the optimizer's state."""
        return {
            "type": type(self).__name__,
            "settings": {name: getattr(self, name) for name in self.kinds},
            **{name: getattr(self, name) for name in self.counters},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state, settings included. Raises StateDictError, and changes nothing, when it
        is of another schedule."""
        problems = self._state_problems(state)
        if problems:
            raise StateDictError(
                f"the state does not fit this {type(self).__name__}: {'; '.join(problems)}"
            )
        for name, value in state["settings"].items():
            setattr(self, name, plain(value))
        for name in self.counters:
            setattr(self, name, state[name])

    def _state_problems(self, state: Mapping[str, Any]) -> list[str]:
        if state.get("type") != type(self).__name__:
            return [f"it is of {state.get('type')!r}"]
        settings = state.get("settings")
        if not isinstance(settings, Mapping):
            return ["settings are missing"]
        found = {name: state[name] for name in self.counters if name in state}
        return self.problems(settings) + misfits(self.counters, found)

    def __repr__(self) -> str:
        settings = [f"{name}={getattr(self, name)!r}" for name in self.kinds]
        return f"{type(self).__name__}({', '.join([*settings, f'last_epoch={self.last_epoch}'])})"


def _base_rates(optimizer: Optimizer) -> list[float]:
    # Noted in the groups by whichever schedule comes first, before any changes a rate.
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
    return [group["initial_lr"] for group in optimizer.param_groups]
