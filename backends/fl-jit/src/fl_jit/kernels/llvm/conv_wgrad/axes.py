"""Operands of a wgrad: supported dtypes and strides, and the reduction axes.

These are the batch and the spatial axes. They are divided into input tiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.layout import Layout, Packed, Placement, Shape, dense
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import AXES
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import HALF, float32, float64

#: The first position, and the last one + 1.
Range: TypeAlias = tuple[int, int]


class Axis(NamedTuple):
    """A reduction axis, the batch or a spatial axis. Strides are in bytes.

    size      of the gradient
    extent    of x
    kernel    of the weights, and its stride, dilation and padding
    """

    size: int
    extent: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    low: int = 0
    x: int = 0
    gradient: int = 0
    out: int = 0

    @property
    def reach(self) -> int:
        """The extent of the positions of x that one position of the gradient reads."""
        return (self.kernel - 1) * self.dilation + 1

    def read_extent(self, size: int) -> int:
        """The extent of the positions of x that ``size`` positions of the gradient read."""
        return (size - 1) * self.stride + self.reach

    @property
    def is_plain(self) -> bool:
        """Whether position i of the gradient reads only position i of x."""
        return self.kernel == self.stride == 1 and not self.low and self.size == self.extent

    @property
    def is_inside(self) -> bool:
        """Whether no padding is read."""
        return not self.low and self.read_extent(self.size) <= self.extent

    def read_through(self, position: int) -> Range:
        """Positions of the gradient for which a kernel position reads x, and not padding."""
        before = self.low - position * self.dilation
        first = min(max(-(-before // self.stride), 0), self.size)
        end = (self.extent - 1 + before) // self.stride + 1
        return first, max(min(end, self.size), first)


def strides(place: Placement) -> Shape:
    """Strides in elements."""
    assert isinstance(place, Layout) and place.strides is not None
    return place.strides


def axes_of(descriptor: ConvWeightGrad) -> list[Axis]:
    """The batch and the spatial axes, merged where possible, preceded by axes of size 1: ``AXES``
    in all."""
    x, gradient, out = descriptor.x, descriptor.gradient, descriptor.out
    each = list(zip(x.shape, gradient.shape, strides(x), strides(gradient), strict=True))
    item = x.dtype.itemsize
    (extent, size, along_x, along_gradient), _, *space = each
    found = [Axis(size, extent, x=along_x * item, gradient=along_gradient * item)]
    first = len(out.shape) - len(space)
    for i, (extent, size, along_x, along_gradient) in enumerate(space):
        axis = Axis(
            *(size, extent, out.shape[first + i], descriptor.stride[i], descriptor.dilation[i]),
            *(descriptor.padding[i][0], along_x * item, along_gradient * item),
            strides(out)[first + i] * out.dtype.itemsize,
        )
        if axis.kernel == 1 and axis.is_inside:  # positions between are never read
            axis = axis._replace(extent=axis.size, x=axis.x * axis.stride, stride=1)
        outer = found[-1]
        follows = all(
            a == b * size for a, b in ((outer.x, axis.x), (outer.gradient, axis.gradient))
        )
        if outer.is_plain and axis.is_plain and (follows or outer.size == 1):
            found[-1] = axis._replace(size=outer.size * size, extent=outer.size * size)
        else:
            found.append(axis)
    return [Axis(1, 1)] * (AXES - len(found)) + found


def axis_fields(axes: Sequence[Axis], steps: Sequence[int]) -> dict[str, int]:
    """The fields of axes whose input tiles have ``steps`` positions, without those of copies."""
    found: dict[str, int] = {}
    for a, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        found |= {
            f"blocks {a}": -(-axis.size // step),
            f"step {a}": step,
            f"size {a}": axis.size,
            f"stride {a}": axis.stride,
            f"low {a}": axis.low,
            f"reach {a}": axis.reach,
            f"extent {a}": axis.extent,
            f"x {a}": axis.x,
            f"gradient {a}": axis.gradient,
        }
    return found


def kernel_strides(descriptor: ConvWeightGrad, features: int) -> tuple[int, int, int]:
    """Byte strides of groups of ``features``, of features and of channels in the result."""
    out, item = descriptor.out, descriptor.out.dtype.itemsize
    grouped = len(out.shape) == len(descriptor.x.shape) + 1
    group, feature, channel = (step * item for step in ((0,) * (not grouped) + strides(out))[:3])
    return group if grouped else feature * features, feature, channel


def steps_of(axes: Sequence[Axis], pixels: int, parts: int = 1) -> tuple[int, ...]:
    """The positions along each axis of an input tile of about ``pixels`` pixels.

    Whole axes are taken from the last one on, while there is room, then equal pieces of the next
    one. The number of pieces is a multiple of ``parts`` if no other axis is divided.
    """
    steps, room = [], pixels
    left = math.prod(axis.size for axis in axes)
    for axis in reversed(axes):
        pieces = -(-axis.size // min(axis.size, max(room, 1)))
        left //= axis.size
        if left == 1 < pieces:
            pieces = -(-pieces // parts) * parts
        steps.append(-(-axis.size // pieces))
        room = room // axis.size if pieces == 1 else 0
    return tuple(reversed(steps))


def input_strides(axes: Sequence[Axis], steps: Sequence[int], pixel: int) -> tuple[list[int], int]:
    """The byte stride of each axis in an input tile of x, of ``steps`` positions of the gradient
    with ``pixel`` bytes for each pixel; and the bytes of the tile."""
    pitches = [pixel]
    for axis, step in list(zip(axes, steps, strict=True))[::-1]:
        pitches.insert(0, pitches[0] * axis.read_extent(step))
    return pitches[1:], pitches[0]


def with_strides(descriptor: ConvWeightGrad) -> ConvWeightGrad:
    """The descriptor, with strides where these are left open.

    Raises UnsupportedError for packed operands, for mixed dtypes (half precision may give float32),
    and for empty operands.
    """
    dtype, rank = descriptor.x.dtype, len(descriptor.x.shape)
    bias = [] if descriptor.bias is None else [descriptor.bias]
    pairs = [(descriptor.x, dtype), (descriptor.gradient, dtype)]
    pairs += [(each, descriptor.out.dtype) for each in (descriptor.out, *bias)]
    for place, wanted in pairs:
        if isinstance(place, Packed):
            raise UnsupportedError("gradients of weights are written by strides, not packed")
        if place.dtype not in (float32, float64, *HALF) or place.dtype != wanted:
            raise UnsupportedError(f"{place}: expected {wanted} as other operands have")
        if 0 in place.shape:
            raise UnsupportedError(f"nothing to sum over: {place}")
    if descriptor.out.dtype not in (dtype, computed(dtype)):
        raise UnsupportedError(f"{descriptor.out}: expected {dtype} or {computed(dtype)}")
    if not 3 <= rank <= AXES + 1:
        raise UnsupportedError(f"one to three axes of space, not {rank - 2}")
    images = (0, *range(2, rank), 1)
    *groups, feature, channel = range(len(descriptor.out.shape) - rank + 2)
    kernel = (*groups, *range(channel + 1, len(descriptor.out.shape)), channel, feature)
    return descriptor._replace(
        x=_with_strides(descriptor.x, images),
        gradient=_with_strides(descriptor.gradient, images),
        out=_with_strides(descriptor.out, kernel),
        bias=_with_strides(bias[0], (0,)) if bias else None,
    )


def _with_strides(place: Placement, order: Shape) -> Layout:
    assert isinstance(place, Layout)
    if place.strides is not None:
        return place
    return place._replace(strides=dense(place.shape, order))
