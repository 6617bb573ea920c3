"""Squared deviations, corrected for the rounding of the mean."""

from __future__ import annotations

from typing import Any

from fl_tensor.roles import Axes, Ops


def squared_size(ops: Ops, x: Any) -> Any:
    """``|x|^2``, real."""
    if x.dtype.kind != "c":
        return ops.multiply(x, x)
    return ops.add(ops.square(ops.real(x)), ops.square(ops.imag(x)))


def squared_deviations(
    ops: Ops, centred: Any, count: Any, axis: Axes, keepdims: bool = False
) -> Any:
    """The sum of ``|x - exact mean|^2`` over axes of ``count`` elements, a number or one for each
    result; ``centred`` is ``x - mean``, whose own mean is not 0 where ``mean`` was rounded. With n
    deviations d: ``sum |d|^2 - |sum d|^2 / n``. Chan, Golub & LeVeque, "Algorithms for computing
    the sample variance", 1983, (1.7)."""
    off = squared_size(ops, ops.sum(centred, axis, keepdims))
    if isinstance(count, float):
        off = ops.multiply(off, ops.constant(1.0 / max(count, 1.0), off))
    else:
        off = ops.divide(off, count)
    # Rounding may leave a little less than 0 of nothing.
    total = ops.sum(squared_size(ops, centred), axis, keepdims)
    return ops.absolute(ops.subtract(total, off))
