"""The extension ``fft``: discrete Fourier transforms, those of ``ft.fft``."""

from __future__ import annotations

from collections.abc import Sequence

from fl_tensor import fft as transforms
from fl_tensor.array_api.signatures import transform, transform_axes
from fl_tensor.arrays.array import Array
from fl_tensor.device import Device
from fl_tensor.dtypes import DType

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

fft = transform(transforms.fft)
ifft = transform(transforms.ifft)
rfft = transform(transforms.rfft)
irfft = transform(transforms.irfft)
hfft = transform(transforms.hfft)
ihfft = transform(transforms.ihfft)

fftn = transform_axes(transforms.fftn)
ifftn = transform_axes(transforms.ifftn)
rfftn = transform_axes(transforms.rfftn)
irfftn = transform_axes(transforms.irfftn)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None
) -> Array:
    """The frequencies of ``fft``'s elements, for samples ``d`` units apart."""
    return transforms.fftfreq(n, d=d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None
) -> Array:
    """The frequencies of ``rfft``'s elements, for samples ``d`` units apart."""
    return transforms.rfftfreq(n, d=d, dtype=dtype, device=device)


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """The zero frequency moved from the front to the middle of the axes, or of all."""
    return transforms.fftshift(x, axes)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Inverse of ``fftshift``."""
    return transforms.ifftshift(x, axes)
