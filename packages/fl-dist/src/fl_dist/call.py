"""The description of a call, which ranks compare to detect mismatches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fl_dist.errors import MismatchError
from fl_tensor import Tensor

_SHAPES_MAY_DIFFER = frozenset({"all_to_all"})
_PARAMETERS_MAY_DIFFER = frozenset({"split"})


@dataclass(frozen=True)
class Call:
    """``operation`` with its ``parameters`` (by name) and its tensor operands ``values``.

    ``number`` counts the collectives of one communicator from 1; it is 0 for send and recv.
    """

    operation: str
    values: tuple[Tensor, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    number: int = 0

    @property
    def title(self) -> str:
        return f"{self.operation} #{self.number}" if self.number else self.operation

    @property
    def lane(self) -> Hashable:
        """What it must keep its order with: all collectives, or the messages of one channel."""
        return "collectives" if self.number else (self.operation, *self.parameters.values())

    def describe(self) -> str:
        """``all_reduce #3 of float32 (2, 3), op='sum'``: equal on all ranks iff they agree."""
        if self.operation in _SHAPES_MAY_DIFFER:
            text = f"{self.title} of {self.values[0].dtype}"
        elif self.values:
            text = f"{self.title} of " + ", ".join(f"{v.dtype} {v.shape}" for v in self.values)
        else:
            text = self.title
        if self.operation not in _PARAMETERS_MAY_DIFFER:
            text += "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return text


def compare(where: str, calls: Sequence[str]) -> None:
    """Raise MismatchError unless the descriptions (one per rank) are equal."""
    if any(text != calls[0] for text in calls):
        raise MismatchError(where, calls)
