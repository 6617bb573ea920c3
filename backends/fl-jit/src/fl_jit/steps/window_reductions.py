"""Reductions over window positions, as instructions: pooling and the passes of its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from fl_jit.kernels.codegen.program import Builder
from fl_jit.steps.windows import Box
from fl_tensor import dtypes
from fl_tensor.dtypes import DType

#: The value to write, and the scalar arguments of the kernel.
Reduced: TypeAlias = tuple[int, list[float]]
#: Arguments: a builder, the values of the same element, those at each window position of the box,
#: and the box.
Reduction: TypeAlias = Callable[[Builder, list[int], list[list[int]], Box], Reduced]


def maximum(dtype: DType) -> Reduction:
    """The maximum over the window; NaN where any element is."""

    def reduce(b: Builder, own: list[int], windowed: list[list[int]], box: Box) -> Reduced:
        (result,), *others = windowed
        for (x,) in others:
            result = b("maximum", result, x)
        return result, []

    return reduce


def _sum(b: Builder, dtype: DType, values: Sequence[int], interior_count: int) -> int:
    # Zeros of padding count: they make 0.0 of -0.0.
    zero = b.constant(0.0, dtype)
    if not values:
        return zero
    result = values[0]
    for x in values[1:]:
        result = b("add", result, x)
    return result if len(values) == interior_count else b("add", result, zero)


def mean(dtype: DType, inside: bool) -> Reduction:
    """The mean over the window: over all its positions, or over those ``inside`` the image."""

    def reduce(b: Builder, own: list[int], windowed: list[list[int]], box: Box) -> Reduced:
        total = _sum(b, dtype, [x for (x,) in windowed], box.interior_count)
        count = len(box.positions) if inside else box.interior_count
        return b("divide", total, b.scalar(dtype)), [count]

    return reduce


def argmax(dtype: DType) -> Reduction:
    """The position of the first maximum. -1 where the maximum is NaN, or where padding comes first
    and is as low."""

    def reduce(b: Builder, own: list[int], windowed: list[list[int]], box: Box) -> Reduced:
        (largest,), *others = windowed
        position = b.scalar(dtypes.int8)
        for (x,) in others:
            position = b("where", b("less", largest, x), b.scalar(dtypes.int8), position)
            largest = b("maximum", largest, x)
        if box.positions[0]:
            counts = b("less", b.constant(-math.inf, dtype), largest)
        else:
            counts = b("equal", largest, largest)
        return b("where", counts, position, b.constant(-1, dtypes.int8)), list(box.positions)

    return reduce


def sum_where_argmax(dtype: DType) -> Reduction:
    """The sum of the gradients of those windows whose maximum is this element."""

    def reduce(b: Builder, own: list[int], windowed: list[list[int]], box: Box) -> Reduced:
        zero = b.constant(0.0, dtype)
        gradients = [
            b("where", b("equal", position, b.scalar(dtypes.int8)), gradient, zero)
            for gradient, position in windowed
        ]
        return _sum(b, dtype, gradients, box.interior_count), list(box.positions)

    return reduce


def mean_gradient(dtype: DType, inside: bool) -> Reduction:
    """The share of each window element in the gradient. There are two divisions, as in the
    composition: by all positions, and by the fraction that counts, if only those ``inside`` the
    image do."""

    def reduce(b: Builder, own: list[int], windowed: list[list[int]], box: Box) -> Reduced:
        whole = b.scalar(dtype)
        quotient = b("divide", own[0], whole)
        if not inside:
            return quotient, [box.interior_count]
        part = b("divide", b.scalar(dtype), whole)
        return b("divide", quotient, part), [box.interior_count, len(box.positions)]

    return reduce


def sum_over_windows(dtype: DType) -> Reduction:
    """The sum over the windows of an element."""

    def reduce(b: Builder, own: list[int], windowed: list[list[int]], box: Box) -> Reduced:
        return _sum(b, dtype, [x for (x,) in windowed], box.interior_count), []

    return reduce
