"""Meter: the base class, a metric with a mergeable state."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import isfunction
from typing import Any, TypeVar

from fl_dist import Communicator, all_gather_object
from fl_nn.errors import ModuleError
from fl_tensor.annotations import Checked

M = TypeVar("M", bound="Meter")


class Meter(Checked, ABC):
    """A figure over everything that was added since the last reset.

    The state is a dict of plain values: it goes into checkpoints, and `merge` adds the state of
    another meter of the same kind and settings. `value` is a property (ModuleError).
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isfunction(vars(cls).get("value")):
            raise ModuleError(
                f"[{cls.__name__}] value is a method: write @property above `def value(self)`"
            )

    def __init__(self) -> None:
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Forget everything."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """The figure."""

    def result(self) -> float:
        """The figure as one number, for logs."""
        return float(self.value)

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that was seen, as what JSON can carry."""

    @abstractmethod
    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what the meter with this state has seen."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        self.reset()
        self.merge(state)

    def fresh(self: M) -> M:
        """A meter of this kind and settings to which nothing was added."""
        twin = copy.copy(self)
        twin.reset()
        return twin

    def sync(self, communicator: Communicator) -> None:
        """Merge the meters of all ranks, on every rank, in rank order: equal results everywhere.
        Call it once, when all is added: a second call would count everything again."""
        if communicator.world_size > 1:
            states = all_gather_object(communicator, self.state())
            self.reset()
            for state in states:
                self.merge(state)
