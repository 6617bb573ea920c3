"""Reducers: summing gradients over ranks during the backward pass.

A training loop adds each gradient as it appears and finalizes once per step. Whether an ``add``
communicates at once or gathers a bucket first is the reducer's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError
from fl_tensor import Tensor


class Reducer(ABC):
    """Every rank adds the same keys in the same order, then finalizes."""

    @abstractmethod
    def add(self, key: str, tensor: Tensor) -> Tensor | None:
        """Take a gradient in. The reduced value if it is known at once, else None.

        Raises ArgumentError when ``key`` was added already since the last ``finalize``.
        """

    @abstractmethod
    def finalize(self) -> dict[str, Tensor]:
        """Finish what is under way: the reduced values since the last call, in the order added."""


class InlineReducer(Reducer):
    """Reduces each tensor the moment it is added: ``scale`` times the sum over ranks.

    The default scale, 1 / world_size, averages.
    """

    def __init__(self, communicator: Communicator, scale: float | None = None) -> None:
        self.communicator = communicator
        self.scale = 1.0 / communicator.world_size if scale is None else scale
        self._reduced: dict[str, Tensor] = {}

    def add(self, key: str, tensor: Tensor) -> Tensor:
        if key in self._reduced:
            raise ArgumentError(
                f"[InlineReducer] {key!r} was added twice; call finalize() after each step"
            )
        reduced: Tensor = self.communicator.all_reduce(tensor)
        if self.scale != 1.0:
            reduced = ft.multiply(reduced, self.scale)
        self._reduced[key] = reduced
        return reduced

    def finalize(self) -> dict[str, Tensor]:
        reduced, self._reduced = self._reduced, {}
        return reduced


def average_gradients(
    communicator: Communicator, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The mean over ranks of each gradient, in one ``all_reduce_many``. None (no gradient) stays
    None and must be None on every rank: MismatchError otherwise."""
    if not isinstance(communicator, Communicator):
        raise ArgumentError(f"[average_gradients] {communicator!r} is no Communicator")
    if not isinstance(gradients, Sequence):
        raise ArgumentError(f"[average_gradients] gradients {gradients!r}: expected a list")
    present = [g for g in gradients if g is not None]
    averaged = iter(communicator.all_reduce_many(present, "mean"))
    return [None if g is None else next(averaged) for g in gradients]
