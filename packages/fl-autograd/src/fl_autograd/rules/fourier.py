"""Rules of the discrete Fourier transforms. A transform along an axis is a symmetric matrix, so its
transpose, which a rule multiplies by, is the transform itself."""

from __future__ import annotations

from typing import Any

from fl_autograd.rules.table import rule

Shape = tuple[int, ...]


def _weights(ops: Any, like: Any, n: int, axis: int, end: float, inner: float) -> Any:
    # Along axis, for the n // 2 + 1 elements of the half of a spectrum: those that are their own
    # mirror images, the first and for even n the last, and the others, which stand for two.
    def part(size: int, value: float) -> Any:
        shape = tuple(size if i == axis else 1 for i in range(len(like.shape)))
        return ops.full(shape, value, like.dtype, like.device)

    sizes = ((1, end), ((n - 1) // 2, inner), (1 - n % 2, end))
    return ops.concatenate([part(size, value) for size, value in sizes if size], axis)


def _rfft(ops: Any, g: Any, x_shape: Shape, axis: int) -> Any:
    # Re(fft(g)) with g as the first half of n elements and zeros for the rest.
    n = x_shape[axis]
    half = ops.multiply(ops.conj(g), _weights(ops, g, n, axis, float(n), n / 2.0))
    return ops.irfft(half, n, axis)


def _irfft(ops: Any, g: Any, n: int, axis: int) -> Any:
    half = ops.conj(ops.rfft(g, axis))
    return ops.multiply(half, _weights(ops, half, n, axis, 1.0 / n, 2.0 / n))


rule("fft", x=lambda ops, g, axis: ops.fft(g, axis))
rule("ifft", x=lambda ops, g, axis: ops.ifft(g, axis))
rule("rfft", x=_rfft)
rule("irfft", x=_irfft)
