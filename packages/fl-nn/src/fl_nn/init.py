"""Initializers: functions of a shape that return tensors.

Random ones draw from `generator`, or from the context's default generator (`ft.seed`). Fans follow
PyTorch: a weight is (out, in, *kernel), fan_in = in * prod(kernel), fan_out = out * prod(kernel).

    layer.weight.tensor = nn.init.glorot_uniform(layer.weight.shape)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import fl_tensor as ft
from fl_memory.tags import PARAMETER, tagged
from fl_nn.errors import ModuleError

__all__ = [
    "Shape", "constant", "fans", "glorot_normal", "glorot_uniform", "identity", "kaiming_normal",
    "kaiming_uniform", "normal", "orthogonal", "truncated_normal", "uniform",
]  # fmt: skip

Shape = Sequence[int]


def __dir__() -> list[str]:
    return __all__


def constant(
    shape: Shape, value: float, *, dtype: ft.DType | None = None, device: ft.Device | None = None
) -> ft.Tensor:
    """All elements `value`."""
    with tagged(PARAMETER):
        return ft.full(tuple(shape), float(value), dtype or ft.get_default_dtype(), device)


def uniform(
    shape: Shape,
    low: float = 0.0,
    high: float = 1.0,
    *,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Uniform on [low, high)."""
    source = generator or ft.default_generator()
    with tagged(PARAMETER):
        return source.uniform(tuple(shape), low, high, dtype=dtype, device=device)


def normal(
    shape: Shape,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Normal with the given mean and standard deviation."""
    source = generator or ft.default_generator()
    with tagged(PARAMETER):
        return source.normal(tuple(shape), mean, std, dtype=dtype, device=device)


def fans(shape: Shape) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (out, in, *kernel). Raises ModuleError below two axes."""
    if len(shape) < 2:
        raise ModuleError(f"[fans] shape {tuple(shape)}: needs (out, in, ...); pass fan_in instead")
    receptive = math.prod(shape[2:])
    return shape[1] * receptive, shape[0] * receptive


def kaiming_uniform(
    shape: Shape,
    fan_in: int | None = None,
    *,
    a: float = 0.0,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Uniform within +-sqrt(6 / ((1 + a^2) fan_in)): keeps the variance through leaky ReLUs of
    slope `a`. He et al., 2015. `a = sqrt(5)` gives +-1 / sqrt(fan_in), as in Linear and Conv2D."""
    bound = math.sqrt(3.0) * _kaiming_std(shape, fan_in, a)
    return uniform(shape, -bound, bound, generator=generator, dtype=dtype, device=device)


def kaiming_normal(
    shape: Shape,
    fan_in: int | None = None,
    *,
    a: float = 0.0,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Normal with standard deviation sqrt(2 / ((1 + a^2) fan_in))."""
    std = _kaiming_std(shape, fan_in, a)
    return normal(shape, 0.0, std, generator=generator, dtype=dtype, device=device)


def glorot_uniform(
    shape: Shape,
    fan_in: int | None = None,
    fan_out: int | None = None,
    *,
    gain: float = 1.0,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Uniform within +-gain sqrt(6 / (fan_in + fan_out)). Glorot & Bengio, 2010."""
    bound = math.sqrt(3.0) * gain * _glorot_std(shape, fan_in, fan_out)
    return uniform(shape, -bound, bound, generator=generator, dtype=dtype, device=device)


def glorot_normal(
    shape: Shape,
    fan_in: int | None = None,
    fan_out: int | None = None,
    *,
    gain: float = 1.0,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out))."""
    std = gain * _glorot_std(shape, fan_in, fan_out)
    return normal(shape, 0.0, std, generator=generator, dtype=dtype, device=device)


def truncated_normal(
    shape: Shape,
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    *,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Normal with the given mean and standard deviation, without what lies outside [low, high]:
    bounds are values, as in PyTorch, not multiples of `std`."""
    source = generator or ft.default_generator()
    with tagged(PARAMETER):
        return source.truncated_normal(
            tuple(shape), mean, std, low, high, dtype=dtype, device=device
        )


def orthogonal(
    shape: Shape,
    gain: float = 1.0,
    *,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """`gain` times a random orthogonal matrix of (shape[0], the rest): its rows are orthonormal, or
    its columns where there are more rows. Saxe et al., 2014; uniform over all of them, since R of
    the QR decomposition is given a positive diagonal (Mezzadri, 2007). CapabilityError on a backend
    without "linalg"."""
    if len(shape) < 2:
        raise ModuleError(f"[orthogonal] shape {tuple(shape)}: a matrix has two axes, or more")
    rows, columns = shape[0], math.prod(shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    with tagged(PARAMETER):
        q, r = ft.linalg.qr(normal(tall, generator=generator, dtype=dtype, device=device))
        q = q * ft.sign(ft.diagonal(r))
        return ft.reshape(q if rows >= columns else ft.swapaxes(q, 0, 1), tuple(shape)) * gain


def identity(
    rows: int,
    columns: int | None = None,
    *,
    dtype: ft.DType | None = None,
    device: ft.Device | None = None,
) -> ft.Tensor:
    """Ones on the diagonal, zeros elsewhere: (rows, columns), square unless columns are given."""
    with tagged(PARAMETER):
        return ft.eye(rows, columns, dtype=dtype or ft.get_default_dtype(), device=device)


def _kaiming_std(shape: Shape, fan_in: int | None, a: float) -> float:
    fan = fans(shape)[0] if fan_in is None else fan_in
    return math.sqrt(2.0 / ((1.0 + a * a) * max(fan, 1)))


def _glorot_std(shape: Shape, fan_in: int | None, fan_out: int | None) -> float:
    if fan_in is None or fan_out is None:
        derived = fans(shape)
        fan_in = derived[0] if fan_in is None else fan_in
        fan_out = derived[1] if fan_out is None else fan_out
    return math.sqrt(2.0 / max(fan_in + fan_out, 1))
