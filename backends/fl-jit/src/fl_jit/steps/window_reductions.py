"""Reductions over window positions, as instructions: pooling and the passes of its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from fl_jit.kernels.codegen.program import Builder
from fl_jit.steps.windows import Box
from fl_tensor import dtypes
from fl_tensor.dtypes import DType

#: Arguments: a builder, values at the same position, values at each window position of the box.
#: Results: the value to write, and the scalar arguments of the kernel.
Folded: TypeAlias = tuple[int, list[float]]
Fold: TypeAlias = Callable[[Builder, list[int], list[list[int]], Box], Folded]


def maximum(dtype: DType) -> Fold:
    """The maximum over the window; NaN where any element is."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        (found,), *others = met
        for (x,) in others:
            found = b("maximum", found, x)
        return found, []

    return fold


def _added(b: Builder, dtype: DType, values: Sequence[int], whole: int) -> int:
    # Zeros of padding count: they make 0.0 of -0.0.
    zero = b.constant(0.0, dtype)
    if not values:
        return zero
    found = values[0]
    for x in values[1:]:
        found = b("add", found, x)
    return found if len(values) == whole else b("add", found, zero)


def mean(dtype: DType, inside: bool) -> Fold:
    """The mean over the window: over all its positions, or over those ``inside`` the image."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        total = _added(b, dtype, [x for (x,) in met], box.whole)
        count = len(box.places) if inside else box.whole
        return b("divide", total, b.scalar(dtype)), [count]

    return fold


def place_of_maximum(dtype: DType) -> Fold:
    """The position of the first maximum. -1 where the maximum is NaN, or where padding comes first
    and is as low."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        (found,), *others = met
        place = b.scalar(dtypes.int8)
        for (x,) in others:
            place = b("where", b("less", found, x), b.scalar(dtypes.int8), place)
            found = b("maximum", found, x)
        if box.places[0]:
            counts = b("less", b.constant(-math.inf, dtype), found)
        else:
            counts = b("equal", found, found)
        return b("where", counts, place, b.constant(-1, dtypes.int8)), list(box.places)

    return fold


def sum_of_chosen(dtype: DType) -> Fold:
    """The sum of the gradients of those windows whose maximum is this element."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        zero = b.constant(0.0, dtype)
        given = [
            b("where", b("equal", place, b.scalar(dtypes.int8)), gradient, zero)
            for gradient, place in met
        ]
        return _added(b, dtype, given, box.whole), list(box.places)

    return fold


def share(dtype: DType, inside: bool) -> Fold:
    """The share of each window element in the gradient. There are two divisions, as in the
    composition: by all positions, and by the fraction that counts, if only those ``inside`` the
    image do."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        whole = b.scalar(dtype)
        found = b("divide", own[0], whole)
        if not inside:
            return found, [box.whole]
        part = b("divide", b.scalar(dtype), whole)
        return b("divide", found, part), [box.whole, len(box.places)]

    return fold


def total(dtype: DType) -> Fold:
    """The sum over the windows of an element."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        return _added(b, dtype, [x for (x,) in met], box.whole), []

    return fold
