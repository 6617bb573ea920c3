"""Operands of generated wgrad kernels: supported dtypes and axes, and strides."""

from __future__ import annotations

from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.layout import Layout, Packed, Placement, Shape, dense
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import AXES
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import HALF, float32, float64


def settled(descriptor: ConvWeightGrad) -> ConvWeightGrad:
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
        x=_settled(descriptor.x, images),
        gradient=_settled(descriptor.gradient, images),
        out=_settled(descriptor.out, kernel),
        bias=_settled(bias[0], (0,)) if bias else None,
    )


def _settled(place: Placement, order: Shape) -> Layout:
    assert isinstance(place, Layout)
    if place.strides is not None:
        return place
    return place._replace(strides=dense(place.shape, order))
