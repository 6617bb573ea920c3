"""Derived Fourier transforms, from those of the capability "fft"."""

from __future__ import annotations

from typing import Any

from fl_tensor.roles import A, Axes, Axis, Ops

__all__ = ["fftn", "hfft", "ifftn", "ihfft", "irfftn", "rfftn"]
CAPABILITY = "fft"


def fftn(ops: Ops, x: A, axes: Axes) -> Any:
    """``fft`` of a complex ``x`` along several axes."""
    for axis in axes:
        x = ops.fft(x, axis)
    return x


def ifftn(ops: Ops, x: A, axes: Axes) -> Any:
    """Inverse of ``fftn``."""
    for axis in axes:
        x = ops.ifft(x, axis)
    return x


def rfftn(ops: Ops, x: A, axes: Axes) -> Any:
    """``rfft`` of a real ``x`` along the last of ``axes``, ``fft`` along the others."""
    return ops.fftn(ops.rfft(x, axes[-1]), axes[:-1])


def irfftn(ops: Ops, x: A, n: int, axes: Axes) -> Any:
    """Inverse of ``rfftn``, real: ``n`` elements along the last of ``axes``."""
    return ops.irfft(ops.ifftn(x, axes[:-1]), n, axes[-1])


def hfft(ops: Ops, x: A, n: int, axis: Axis) -> Any:
    """``fft`` of the Hermitian signal of length ``n`` whose first ``n // 2 + 1`` elements are the
    complex ``x``: real."""
    found = ops.irfft(ops.conj(x), n, axis)
    return ops.multiply(found, ops.constant(float(n), found))


def ihfft(ops: Ops, x: A, axis: Axis) -> Any:
    """Inverse of ``hfft``: the first ``n // 2 + 1`` elements of ``ifft`` of a real ``x``."""
    found = ops.conj(ops.rfft(x, axis))
    size = ops.constant(1.0 / x.shape[axis], found)
    return ops.multiply(found, size)
