"""The time axis through a network: where it lies behind each layer, and how many steps are left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import Pool1D, Pool2D, Pool3D, Reparametrization, with_lengths

WINDOWS = (nn.Conv1D, nn.Conv2D, nn.Conv3D, Pool1D, Pool2D, Pool3D)
#: Layers for which "as many steps as before" would be a guess.
_RESAMPLING = (
    nn.AdaptiveAvgPool1D, nn.AdaptiveAvgPool2D, nn.AdaptiveAvgPool3D, nn.Upsample,
    nn.ConvTranspose1D, nn.ConvTranspose2D, nn.ConvTranspose3D,
)  # fmt: skip


@dataclass(frozen=True)
class Time:
    """`axis` of `ndim` is time; `steps` are those of each sequence of the batch."""

    axis: int
    ndim: int
    steps: tuple[int, ...] = ()

    def moved(self, axis: int) -> Time:
        return replace(self, axis=axis)


def behind(module: nn.Module, time: Time) -> Time:
    """Time behind `module`, when each sequence runs through it alone. Raises ModuleError for a
    layer of which that is not known."""
    if isinstance(module, nn.Residual):
        return _behind_residual(module, time)
    if isinstance(module, nn.Sequential):
        for part in module:
            time = behind(part, time)
        return time
    if isinstance(module, nn.FourAxes):
        return _behind_four_axes(module, time)
    if isinstance(module, Reparametrization):
        return behind(module.module, time)
    if isinstance(module, nn.Reorder):
        axes = [a % time.ndim for a in module.axes]
        return time.moved(axes.index(time.axis))
    if isinstance(module, nn.View):
        return _behind_view(module, time)
    if isinstance(module, nn.Flatten):
        return _behind_flatten(module, time)
    if isinstance(module, nn.Padding):
        widths = module.widths
        before, after = (widths,) * 2 if isinstance(widths, int) else widths[time.axis]
        return replace(time, steps=tuple(n + before + after for n in time.steps))
    if isinstance(module, WINDOWS):
        return _behind_window(module, time)
    if isinstance(module, _RESAMPLING):
        raise _unknown(module)
    return time


def run(module: nn.Module, x: ft.Array, time: Time) -> tuple[ft.Array, Time]:
    """`module(x)` and the time behind it; layers that ask for lengths are given those of their own
    input. Raises ModuleError where a layer makes other steps than `behind` says."""
    if isinstance(module, nn.Sequential) and not isinstance(module, nn.Residual):
        for part in module:
            x, time = run(part, x, time)
        return x, time
    after = behind(module, replace(time, steps=(x.shape[time.axis], *time.steps)))
    steps, after = after.steps[0], replace(after, steps=after.steps[1:])
    if time.steps and module.takes_lengths:
        y = with_lengths(module, list(time.steps))(x)
    else:
        y = module(x)
    if not isinstance(y, ft.Array) or y.ndim != after.ndim or y.shape[after.axis] != steps:
        found = y.shape if isinstance(y, ft.Array) else type(y).__name__
        raise nn.ModuleError(
            f"[AcousticModel] {type(module).__name__} made {found} of {x.shape}, where time was "
            f"axis {time.axis}: expected {steps} steps on axis {after.axis} of {after.ndim}. "
            "Write the layer so that time stays, or the module as a whole with the interface "
            "(features, lengths) -> (output, lengths)"
        )
    short = [i for i, n in enumerate(after.steps) if n < 1]
    if short:
        i = short[0]
        raise ft.ShapeError(
            f"[AcousticModel] sequence {i} of the batch has {time.steps[i]} steps before "
            f"{type(module).__name__}({module.extra_repr()}), too few for one step behind it: "
            "filter short recordings, or pad the features and their length"
        )
    return y, after


def leaves(module: nn.Module, time: Time) -> Iterator[tuple[nn.Module, Time]]:
    """The layers in order, each with the time before it."""
    if isinstance(module, nn.Sequential) and not isinstance(module, nn.Residual):
        for part in module:
            yield from leaves(part, time)
            time = behind(part, time)
        return
    yield module, time


def _unknown(module: nn.Module) -> nn.ModuleError:
    return nn.ModuleError(
        f"[AcousticModel] {type(module).__name__}({module.extra_repr()}): how many steps of time "
        "it makes of those of a sequence is not known; use convolutions and pooling with strides"
    )


def _behind_residual(block: nn.Residual, time: Time) -> Time:
    after = time
    for part in block:
        after = behind(part, after)
    return after


def _behind_four_axes(module: nn.FourAxes, time: Time) -> Time:
    if time.ndim != 4:
        return behind(module.module, time)
    if time.axis == module.axis:
        raise nn.ModuleError(
            f"[AcousticModel] {type(module.module).__name__}: its axis {module.axis} of size 1 is "
            "the axis of time; Reorder before it"
        )
    shift = int(time.axis > module.axis)
    inner = behind(module.module, Time(time.axis - shift, 3, time.steps))
    return Time(inner.axis + int(inner.axis >= module.axis), 4, inner.steps)


def _behind_view(module: nn.View, time: Time) -> Time:
    shift = len(module.shape) - time.ndim if module.from_end else 0
    place = time.axis + shift
    if 0 <= place < len(module.shape) and module.shape[place] < 1:
        return Time(place, len(module.shape), time.steps)
    raise nn.ModuleError(
        f"[AcousticModel] View{module.shape} of {time.ndim} axes, where time is axis {time.axis}: "
        "write 0 there, which keeps an axis"
    )


def _behind_flatten(module: nn.Flatten, time: Time) -> Time:
    start, end = (a % time.ndim for a in (module.start, module.end))
    if start <= time.axis <= end and start < end:
        raise nn.ModuleError(
            f"[AcousticModel] Flatten({module.start}, {module.end}) joins time, axis {time.axis}, "
            "with others"
        )
    shift = end - start if time.axis > end else 0
    return Time(time.axis - shift, time.ndim - (end - start), time.steps)


def _behind_window(module: Any, time: Time) -> Time:
    place = time.axis - 2
    if place < 0:
        raise nn.ModuleError(
            f"[AcousticModel] {type(module).__name__}({module.extra_repr()}): time is axis "
            f"{time.axis}, which is not one of its windows; Reorder before it"
        )
    return replace(time, steps=tuple(window_steps(module, place, n) for n in time.steps))


def window_steps(module: Any, place: int, n: int) -> int:
    """How many steps a convolution or pooling makes of `n`, on its window axis `place`."""
    size = module.window if hasattr(module, "window") else module.kernel
    span = module.dilation[place] * (size[place] - 1) + 1
    stride, padding = module.stride[place], module.padding[place]
    if padding is None:
        return -(-n // stride)
    room = n + 2 * padding - span
    if room < 0:
        return 0
    steps = room // stride + 1
    if getattr(module, "ceil_mode", False):
        steps = -(-room // stride) + 1
        steps -= int((steps - 1) * stride >= n + padding)  # it would start beyond the end
    return int(steps)
