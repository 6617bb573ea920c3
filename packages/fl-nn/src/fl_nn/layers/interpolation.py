"""Interpolation of sequences, images and volumes to other sizes: `interpolate`, `Upsample`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers import pool
from fl_nn.layers.interpolation_weights import Axis, contributions, matrix, nearest
from fl_nn.module import Module
from fl_tensor.annotations import explained
from fl_tensor.arguments import choice_of, flag_of, float_of, ints_of, is_single, per_axis
from fl_tensor.dtypes import HALF

#: The modes, with the number of spatial axes that each takes.
MODES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,),
    "bicubic": (2,), "trilinear": (3,), "area": (1, 2, 3),
}  # fmt: skip
_SMOOTH = ("linear", "bilinear", "bicubic", "trilinear")
_ANTIALIASED = ("bilinear", "bicubic")
_AREA = {1: pool.AdaptiveAvgPool1D, 2: pool.AdaptiveAvgPool2D, 3: pool.AdaptiveAvgPool3D}
#: Up to so many weights an axis is a matrix product, whose gradient is several times faster than
#: that of gathers.
_MATRIX = 1 << 18

Size = int | Sequence[int]
Factor = float | Sequence[float]


@explained
def interpolate(
    x: ft.Array,
    size: Size | None = None,
    scale_factor: Factor | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> ft.Array:
    """`x` (N, C, length), (N, C, height, width) or (N, C, depth, height, width) with other sizes
    of its spatial axes. Equals PyTorch's `torch.nn.functional.interpolate`.

    size           the spatial sizes: an int for all, or one for each
    scale_factor   in place of `size`: a number for all, or one for each; the sizes are rounded down
    mode           "nearest", "nearest-exact" (nearest centre) and "area" (means of windows) of any
                   of these shapes; "linear" of sequences, "bilinear" and "bicubic" of images,
                   "trilinear" of volumes
    align_corners  of the linear and cubic modes: whether the first and last elements keep their
                   places; otherwise (default) the outer edges of the elements do
    recompute_scale_factor  compute positions from the sizes, not from the given `scale_factor`
    antialias      of "bilinear" and "bicubic": widen the kernel where sizes shrink

    float16 and bfloat16 are computed in float32. "nearest" and "nearest-exact" take every dtype,
    the others floating ones (DTypeError). Raises ShapeError for shapes that the mode does not take,
    ArgumentError for settings that do not go together.
    """
    _check_settings(size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    count = x.ndim - 2
    if count not in MODES[mode] or 0 in x.shape[2:]:
        shapes = " or ".join(f"(N, C, {_PLACES[n]})" for n in MODES[mode])
        raise ft.ShapeError(f"[interpolate] x {x.shape}: mode {mode!r} takes {shapes}")
    sizes, factors = _wanted(x.shape[2:], size, scale_factor)
    if recompute_scale_factor:
        factors = (None,) * count
    if mode.startswith("nearest"):
        return _nearest(x, sizes, factors, mode == "nearest-exact")
    if not x.dtype.is_floating:
        raise ft.DTypeError(f"[interpolate] x is {x.dtype}: mode {mode!r} takes a floating dtype")
    if mode == "area":
        return _AREA[count](sizes)(x)
    kernel = "cubic" if mode == "bicubic" else "linear"
    y = ft.cast(x, ft.float32) if x.dtype in HALF else x
    for place, (wanted, factor) in enumerate(zip(sizes, factors), 2):
        axis = Axis(x.shape[place], wanted, kernel, factor, bool(align_corners), antialias)
        # As in PyTorch, an axis whose size stays is kept; only plain cubic weights move it.
        if wanted != axis.size or (axis.scale != 1.0 and kernel == "cubic" and not antialias):
            y = _resampled(y, axis, place)
    return ft.cast(y, x.dtype) if x.dtype in HALF else y


class Upsample(Module):
    """`interpolate` as a layer, with its settings; it may also make sizes smaller. As PyTorch's
    Upsample."""

    def __init__(
        self,
        size: Size | None = None,
        scale_factor: Factor | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        *,
        antialias: bool = False,
    ) -> None:
        try:
            _check_settings(
                size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
            )
        except ft.ArgumentError as error:
            raise ModuleError(str(error).replace("[interpolate]", "[Upsample]")) from None
        self.size, self.scale_factor = _as_tuple(size), _as_tuple(scale_factor)
        self.mode, self.align_corners, self.antialias = mode, align_corners, antialias
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: ft.Array) -> ft.Array:
        return interpolate(
            x,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
            self.antialias,
        )

    def extra_repr(self) -> str:
        known = "size" if self.size is not None else "scale_factor"
        return f"{known}={getattr(self, known)}, mode={self.mode!r}"


_PLACES = {1: "length", 2: "height, width", 3: "depth, height, width"}


def _check_settings(
    size: Any, factor: Any, mode: Any, align_corners: Any, recompute: Any, antialias: Any
) -> None:
    choice_of("interpolate", mode, "mode", MODES)
    flags = {"align_corners": align_corners, "recompute_scale_factor": recompute}
    for name, flag in {**flags, "antialias": antialias}.items():
        if flag is not None or name not in flags:
            flag_of("interpolate", flag, name)
    problem = ""
    if (size is None) == (factor is None):
        problem = f"size {size}, scale_factor {factor}: give one of the two"
    elif size is not None and min(ints_of("interpolate", size, "size"), default=0) < 1:
        problem = f"size {size}: give sizes of at least 1"
    elif factor is not None and not all(0.0 < f < math.inf for f in _factors(factor)):
        problem = f"scale_factor {factor}: give numbers above 0"
    elif align_corners is not None and mode not in _SMOOTH:
        problem = f"align_corners={align_corners}: mode {mode!r} has none; {', '.join(_SMOOTH)} do"
    elif recompute and factor is None:
        problem = "recompute_scale_factor=True needs a scale_factor; size alone says all"
    elif antialias and mode not in _ANTIALIASED:
        problem = f"antialias=True: mode {mode!r} has none; {', '.join(_ANTIALIASED)} do"
    if problem:
        raise ft.ArgumentError(f"[interpolate] {problem}")


def _wanted(
    own: tuple[int, ...], size: Size | None, factor: Factor | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    # The sizes, and the factors that were given.
    if factor is None:
        sizes = per_axis("interpolate", size, len(own), "size")  # type: ignore[arg-type]
        factors: tuple[float | None, ...] = (None,) * len(own)
    else:
        factors = _factors(factor) * (len(own) if is_single(factor) else 1)
        if len(factors) != len(own):
            raise ft.ShapeError(
                f"[interpolate] scale_factor {factor}: expected a number, or one for each of "
                f"{len(own)} axes"
            )
        sizes = tuple(math.floor(n * f) for n, f in zip(own, factors))
    if min(sizes) < 1:
        raise ft.ShapeError(
            f"[interpolate] spatial sizes {own} would become {sizes}: each has to be at least 1"
        )
    return sizes, factors


def _factors(given: Any) -> tuple[float, ...]:
    several = (given,) if is_single(given) else given
    return tuple(float_of("interpolate", factor, "scale_factor") for factor in several)


def _nearest(
    x: ft.Array, sizes: Sequence[int], factors: Sequence[float | None], exact: bool
) -> ft.Array:
    for place, (wanted, factor) in enumerate(zip(sizes, factors), 2):
        axis = Axis(x.shape[place], wanted, factor=factor)
        indices = nearest(axis, exact, x.dtype is ft.float64)
        times, rest = divmod(wanted, axis.size)
        if not rest and all(index == i // times for i, index in enumerate(indices)):
            x = ft.repeat(x, times, place) if times > 1 else x
        else:
            x = ft.take(x, ft.asarray(indices, None, x.device, x.backend), place)
    return x


def _resampled(x: ft.Array, axis: Axis, place: int) -> ft.Array:
    if axis.size * axis.wanted <= _MATRIX:
        table = ft.asarray(matrix(axis), x.dtype, x.device, x.backend)
        table = ft.reshape(table, (axis.wanted, axis.size))
        if place == x.ndim - 1:
            return ft.matmul(x, ft.swapaxes(table, 0, 1))
        if place == x.ndim - 2:
            return ft.matmul(table, x)
        return ft.moveaxis(ft.linear(ft.moveaxis(x, place, -1), table), -1, place)
    shape = [1] * x.ndim
    shape[place] = axis.wanted
    found: Any = None
    for indices, weights in zip(*contributions(axis)):
        part = ft.take(x, ft.asarray(indices, None, x.device, x.backend), place)
        weight = ft.asarray(weights, x.dtype, x.device, x.backend)
        part = part * ft.reshape(weight, tuple(shape))
        found = part if found is None else found + part
    return found


def _as_tuple(value: Any) -> Any:
    return tuple(value) if value is not None and not is_single(value) else value
