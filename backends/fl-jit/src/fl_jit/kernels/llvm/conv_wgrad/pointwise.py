"""Weight gradients of 1 x 1 convolutions as a GEMM:

out (channels x features) = x (pixels x channels), transposed, @ gradient (pixels x features)
"""

from __future__ import annotations

from collections.abc import Sequence

from fl_jit.kernels.descriptors import ConvWeightGrad, Matmul
from fl_jit.kernels.layout import Layout
from fl_jit.kernels.llvm.conv_wgrad.axes import Axis, strides
from fl_tensor.dtypes import HALF


def product(descriptor: ConvWeightGrad, axes: Sequence[Axis]) -> Matmul | None:
    """The equivalent GEMM of a descriptor with these axes, or None.

    None: the kernel has several positions, the stride of pixels varies, there is a bias gradient,
    or operands have half precision. ``loop_nest.py`` converts half precision in its copies.
    """
    *others, along = axes
    if (
        descriptor.x.dtype in HALF
        or descriptor.bias is not None
        or not along.is_plain
        or any(a != Axis(1, 1) for a in others)
    ):
        return None
    pixels, groups, dtype = along.size, descriptor.groups, descriptor.x.dtype
    channels = descriptor.x.shape[1] // groups
    features = descriptor.gradient.shape[1] // groups
    of_x, of_gradient = strides(descriptor.x)[1], strides(descriptor.gradient)[1]
    grouped = len(descriptor.out.shape) == len(descriptor.x.shape) + 1
    group, feature, channel = ((0,) * (not grouped) + strides(descriptor.out))[:3]
    group = group if grouped else feature * features
    x, gradient = (step // dtype.itemsize for step in (along.x, along.gradient))
    return Matmul(
        Layout(dtype, (groups, channels, pixels), (of_x * channels, of_x, x)),
        Layout(dtype, (groups, pixels, features), (of_gradient * features, gradient, of_gradient)),
        Layout(descriptor.out.dtype, (groups, channels, features), (group, channel, feature)),
    )
