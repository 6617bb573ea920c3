"""Rules of functions without a complex derivative: parts, conjugates, magnitudes, angles.

Rules compute with the conjugate of the gradient that users see (``fl_autograd.gradients``): for a
real L and ``z = x + i y`` with ``c = dL/dx - i dL/dy``, so that ``dL = Re(c dz)``. Where a function
has a complex derivative, ``c`` of the operand is ``c`` of the result times it, as with real
numbers. The rules here are of the other functions. (``c`` is JAX's convention, its conjugate
PyTorch's.)
"""

from __future__ import annotations

from typing import Any

from fl_autograd.rules.table import rule
from fl_tensor.dtypes import DType


def times_conjugate(ops: Any, g: Any, x: Any) -> Any:
    """``g conj(x)`` of a real ``g``, in the dtype of ``x``, which may be real."""
    if x.dtype.kind != "c":
        return ops.multiply(g, x)
    return ops.multiply(ops.cast(g, x.dtype), ops.conj(x))


def _imag(ops: Any, g: Any, x_dtype: DType) -> Any:
    wide = ops.cast(g, x_dtype)
    return ops.multiply(wide, ops.constant(-1j, wide))


def absolute(ops: Any, g: Any, x: Any) -> Any:
    """The rule of ``absolute``: ``g sign(x)``, of complex numbers ``g conj(x) / |x|``; 0 at 0."""
    if x.dtype.kind != "c":
        return ops.multiply(g, ops.sign(x))
    size = ops.absolute(x)
    zero, one = ops.constant(0.0, size), ops.constant(1.0, size)
    flat = ops.equal(size, zero)
    share = ops.where(flat, zero, ops.divide(g, ops.where(flat, one, size)))
    return times_conjugate(ops, share, x)


def _angle(ops: Any, g: Any, x: Any) -> Any:
    # The angle is the imaginary part of log(x); 0 at 0.
    zero, one = ops.constant(0.0, x), ops.constant(1.0, x)
    flat = ops.equal(x, zero)
    turned = _imag(ops, g, x.dtype)
    return ops.where(flat, zero, ops.divide(turned, ops.where(flat, one, x)))


rule("real", x=lambda ops, g, x_dtype: ops.cast(g, x_dtype))
rule("imag", x=_imag)
rule("conj", x=lambda ops, g: ops.conj(g))
rule("absolute", x=absolute)
rule("angle", x=_angle)
