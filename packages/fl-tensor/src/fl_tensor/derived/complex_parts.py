"""Derived operations on parts of complex numbers."""

from __future__ import annotations

from typing import Any

from fl_tensor.roles import A, Ops

__all__ = ["angle"]
CAPABILITY = "complex"
SINCE = {"angle": "1.1"}


def angle(ops: Ops, x: A) -> Any:
    """The angle of a complex ``x`` in radians, in [-pi, pi]; complex64 gives float32, complex128
    float64."""
    return ops.atan2(ops.imag(x), ops.real(x))
