"""Windows for spectra: weights of ``m`` samples, symmetric, the largest in the middle."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments
from fl_tensor.device import DeviceLike
from fl_tensor.dispatch.registry import BackendLike
from fl_tensor.dtypes import default_float
from fl_tensor.functions.creation import DTypeLike
from fl_tensor.numpy_functions.elementwise import scaled_i0

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def bartlett(
    m: int, dtype: DTypeLike = None, device: DeviceLike = None, backend: BackendLike | None = None
) -> Any:
    """``1 - |t|`` for t from -1 to 1: a triangle with zeros at both ends."""
    t = _times("bartlett", m, dtype, device, backend)
    return 1.0 - ft.absolute(t) if m > 1 else t + 1.0


def blackman(
    m: int, dtype: DTypeLike = None, device: DeviceLike = None, backend: BackendLike | None = None
) -> Any:
    """``0.42 + 0.5 cos(pi t) + 0.08 cos(2 pi t)`` for t from -1 to 1."""
    angle = _times("blackman", m, dtype, device, backend) * math.pi
    return 0.42 + 0.5 * ft.cos(angle) + 0.08 * ft.cos(2.0 * angle)


def hamming(
    m: int, dtype: DTypeLike = None, device: DeviceLike = None, backend: BackendLike | None = None
) -> Any:
    """``0.54 + 0.46 cos(pi t)`` for t from -1 to 1."""
    return 0.54 + 0.46 * ft.cos(_times("hamming", m, dtype, device, backend) * math.pi)


def hanning(
    m: int, dtype: DTypeLike = None, device: DeviceLike = None, backend: BackendLike | None = None
) -> Any:
    """``0.5 + 0.5 cos(pi t)`` for t from -1 to 1; also known as Hann."""
    return 0.5 + 0.5 * ft.cos(_times("hanning", m, dtype, device, backend) * math.pi)


def kaiser(
    m: int,
    beta: float,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    backend: BackendLike | None = None,
) -> Any:
    """``i0(beta sqrt(1 - t^2)) / i0(beta)`` for t from -1 to 1; the larger ``beta``, the narrower.
    Kaiser, 1966."""
    t = _times("kaiser", m, dtype, device, backend)
    size = arguments.float_of("kaiser", beta, "beta")
    inner = size * ft.sqrt(1.0 - t * t)
    ratio = scaled_i0(inner) / scaled_i0(ft.full_like(t, size))
    return ft.exp(ft.absolute(inner) - abs(size)) * ratio


def _times(
    op: str, m: int, dtype: DTypeLike, device: DeviceLike, backend: BackendLike | None
) -> Any:
    # m numbers from -1 to 1, exactly symmetric; 0 for a single one. In the default float.
    count = arguments.int_of(op, m, "m")
    kind = default_float() if dtype is None else dtype
    steps = ft.arange(1 - count, count, 2, kind, device, backend)
    return steps / float(max(count - 1, 1))
