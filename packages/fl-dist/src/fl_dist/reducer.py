"""Reducers: summing gradients over ranks during the backward pass.

A training loop plans its gradients once, adds each as it appears, and finalizes once per step.
Whether an ``add`` communicates at once or gathers a bucket first is the reducer's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import fl_tensor as ft
from fl_dist.call import compare
from fl_dist.communicator import Communicator, check_communicator
from fl_dist.errors import ArgumentError
from fl_dist.objects import all_gather_object
from fl_tensor import DType, Tensor

__all__ = [
    "GradientSpec",
    "InlineReducer",
    "Reducer",
    "average_gradients",
    "check_communicator",
    "check_planned",
    "checked_plan",
]

#: The key, shape and dtype of one gradient.
GradientSpec: TypeAlias = tuple[str, tuple[int, ...], "DType | str"]


class Reducer(ABC):
    """Plans once, then per step: ``add`` in any order, ``finalize``."""

    @abstractmethod
    def plan(self, specs: Sequence[GradientSpec]) -> None:
        """The gradients of every step, the same list on all ranks; before the first ``add``.

        Collective. Raises MismatchError where the lists differ, ArgumentError for a key twice.
        """

    @abstractmethod
    def add(self, key: str, gradient: Tensor) -> None:
        """Take a gradient in. Ranks may add in different orders, and not all of them.

        Raises ArgumentError for a key that was not planned, for one that was added already since
        the last ``finalize``, and for another shape or dtype than planned.
        """

    @abstractmethod
    def finalize(self, weight: float = 1.0) -> dict[str, Tensor]:
        """``weight`` times the sum over ranks of every planned gradient, in the order of the plan.

        Collective. What a rank did not add counts as zeros. ``1 / world_size`` averages.
        """


class InlineReducer(Reducer):
    """The simplest reducer: one ``all_reduce_many`` of everything, in ``finalize``."""

    def __init__(self, communicator: Communicator) -> None:
        self.communicator = communicator
        self._specs: dict[str, tuple[tuple[int, ...], DType]] = {}
        self._added: dict[str, Tensor] = {}

    def plan(self, specs: Sequence[GradientSpec]) -> None:
        self._specs = checked_plan(self.communicator, specs)

    def add(self, key: str, gradient: Tensor) -> None:
        check_planned("InlineReducer", self._specs, key, gradient)
        if key in self._added:
            raise ArgumentError(
                f"[InlineReducer] {key!r} was added twice; call finalize() after each step"
            )
        self._added[key] = gradient

    def finalize(self, weight: float = 1.0) -> dict[str, Tensor]:
        added, self._added = self._added, {}
        values = [
            added[key] if key in added else ft.zeros(shape, dtype)
            for key, (shape, dtype) in self._specs.items()
        ]
        totals = self.communicator.all_reduce_many(values)
        if weight != 1.0:
            totals = [ft.multiply(total, weight) for total in totals]
        return dict(zip(self._specs, totals))


def checked_plan(
    communicator: Communicator, specs: Sequence[GradientSpec]
) -> dict[str, tuple[tuple[int, ...], DType]]:
    """Shape and dtype by key, when all ranks have planned the same; for reducers of one's own."""
    planned = {key: (tuple(shape), ft.dtype(dtype)) for key, shape, dtype in specs}
    if len(planned) < len(specs):
        raise ArgumentError("[plan] two gradients have one key")
    lines = [f"{key}: {dtype} {shape}" for key, (shape, dtype) in planned.items()]
    compare("[plan]", ["; ".join(texts) for texts in all_gather_object(communicator, lines)])
    return planned


def check_planned(
    reducer: str, planned: Mapping[str, tuple[tuple[int, ...], DType]], key: str, gradient: Tensor
) -> None:
    """Raise ArgumentError for a gradient that is not as planned."""
    if key not in planned:
        raise ArgumentError(f"[{reducer}] {key!r} was not planned: pass all gradients to plan()")
    shape, dtype = planned[key]
    if gradient.shape != shape or gradient.dtype is not dtype:
        raise ArgumentError(
            f"[{reducer}] {key!r}: planned as {dtype} {shape}, got {gradient.dtype} "
            f"{gradient.shape}"
        )


def average_gradients(
    communicator: Communicator, gradients: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The mean over ranks of each gradient, in one ``all_reduce_many``. None (no gradient) stays
    None and must be None on every rank: MismatchError otherwise."""
    check_communicator("average_gradients", communicator)
    if not isinstance(gradients, Sequence):
        raise ArgumentError(f"[average_gradients] gradients {gradients!r}: expected a list")
    present = [g for g in gradients if g is not None]
    averaged = iter(communicator.all_reduce_many(present, "mean"))
    return [None if g is None else next(averaged) for g in gradients]
