"""What becomes of the elements that a window meets, as instructions: the maximum or the mean of a
window, and what each element of the image gets of the gradients of its windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from fl_jit.kernels.codegen.program import Builder
from fl_jit.steps.windows import Box
from fl_tensor import dtypes
from fl_tensor.dtypes import DType

#: From a builder, values of the same place, values that are met in each place of the box: what to
#: write, and the numbers to call the kernel with.
Folded: TypeAlias = tuple[int, list[float]]
Fold: TypeAlias = Callable[[Builder, list[int], list[list[int]], Box], Folded]


def maximum(dtype: DType) -> Fold:
    """The maximum of what is met; NaN where any of it is."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        (found,), *others = met
        for (x,) in others:
            found = b("maximum", found, x)
        return found, []

    return fold


def _added(b: Builder, dtype: DType, values: Sequence[int], whole: int) -> int:
    # Where there is padding its zeros count: they make 0.0 of -0.0.
    zero = b.constant(0.0, dtype)
    if not values:
        return zero
    found = values[0]
    for x in values[1:]:
        found = b("add", found, x)
    return found if len(values) == whole else b("add", found, zero)


def mean(dtype: DType, inside: bool) -> Fold:
    """The mean of what is met: of all places of the window, or of those ``inside`` the image."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        total = _added(b, dtype, [x for (x,) in met], box.whole)
        count = len(box.places) if inside else box.whole
        return b("divide", total, b.scalar(dtype)), [count]

    return fold


def place_of_maximum(dtype: DType) -> Fold:
    """Which place has the maximum: the first one; -1 where it is NaN, or where padding, which comes
    first, is as low."""

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
    """The gradients of those windows, met with their places of the maximum, that chose this
    element."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        zero = b.constant(0.0, dtype)
        given = [
            b("where", b("equal", place, b.scalar(dtypes.int8)), gradient, zero)
            for gradient, place in met
        ]
        return _added(b, dtype, given, box.whole), list(box.places)

    return fold


def share(dtype: DType, inside: bool) -> Fold:
    """What each element of a window gets of its gradient, divided twice as in the composition:
    by all places, and by the part of them that counts, where those ``inside`` alone do."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        whole = b.scalar(dtype)
        found = b("divide", own[0], whole)
        if not inside:
            return found, [box.whole]
        part = b("divide", b.scalar(dtype), whole)
        return b("divide", found, part), [box.whole, len(box.places)]

    return fold


def total(dtype: DType) -> Fold:
    """The sum of what is met."""

    def fold(b: Builder, own: list[int], met: list[list[int]], box: Box) -> Folded:
        return _added(b, dtype, [x for (x,) in met], box.whole), []

    return fold
