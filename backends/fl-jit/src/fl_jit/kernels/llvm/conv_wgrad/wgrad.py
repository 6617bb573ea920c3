"""Kernels of the gradient of a convolution's weights, and of its bias.

    out[position, channel, feature] =
        sum over pixels: x[pixel + position, channel] * gradient[pixel, feature]

is a GEMM whose reduction axis are the pixels. ``loop_nest.py`` lists the loops, ``plan.py`` the
division of a descriptor. Weights are written with any strides. Channels-last images are fastest.
Others are transposed by the copies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.descriptors import ConvWeightGrad, Matmul
from fl_jit.kernels.layout import Layout
from fl_jit.kernels.library import Kernel
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.conv_wgrad import loop_nest
from fl_jit.kernels.llvm.conv_wgrad.arguments import WgradArguments
from fl_jit.kernels.llvm.conv_wgrad.axes import (
    Axis,
    axes_of,
    kernel_strides,
    strides,
    with_strides,
)
from fl_jit.kernels.llvm.conv_wgrad.gemm_arguments import GemmArguments
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import FIELDS
from fl_jit.kernels.llvm.conv_wgrad.loop_nest import GemmLoopNest, LoopNest
from fl_jit.kernels.llvm.conv_wgrad.plan import plan, tallest
from fl_jit.kernels.llvm.gemm import matmul
from fl_jit.kernels.llvm.launcher import Launcher
from fl_jit.kernels.llvm.tile import Tile
from fl_jit.kernels.native_calls import KernelCall, NativeCall
from fl_tensor.dtypes import HALF, DType

#: Multiply-adds per nanosecond, approximately.
_SPEED = 25.0
#: A function of the addresses of x, the gradient, the bias (0: none) and the result.
Call: TypeAlias = Callable[[tuple[int, int, int, int]], None]


class WgradKernel:
    """A wgrad kernel that computes by ``call``."""

    def __init__(self, descriptor: ConvWeightGrad, about: str, call: Call) -> None:
        bias = () if descriptor.bias is None else (descriptor.bias,)
        self.operands = (descriptor.x, descriptor.gradient, *bias, descriptor.out)
        self.about = f"generated: {about}"
        self._call = call

    @classmethod
    def of(
        cls, nest: type[LoopNest], arguments: WgradArguments, about: str, speed: float
    ) -> WgradKernel:
        """The kernel of a loop nest with these arguments, which computes about ``speed``
        multiply-adds per nanosecond."""
        descriptor, made = arguments.descriptor, arguments.made
        code = _code(nest, arguments.dtype, descriptor.out.dtype, made.pairs)
        work = math.prod(axis.size * axis.kernel for axis in arguments.axes)
        work *= math.prod(
            descriptor.out.shape[: len(descriptor.out.shape) - len(descriptor.stride)]
        )
        about = f"{about}, {made.input_tiles} input tiles in {made.parts} parts"
        fields, divide, tables = arguments.fields, arguments.divide, arguments.tables
        call = Launcher(code, FIELDS, fields, divide, work / speed, owned=tables)
        return cls(descriptor, about, call)

    def __call__(self, *addresses: int) -> None:
        """Compute: x, gradient[, bias], out."""
        self._call(_operands(addresses))

    def bound(self) -> NativeCall:
        """A call with arguments of its own, for the present number of threads."""
        call = self._call
        if isinstance(call, Launcher):
            return call.bound(lambda addresses: (_operands(addresses), ()))
        return KernelCall(self)


def _operands(addresses: Sequence[int]) -> tuple[int, int, int, int]:
    x, gradient, *bias, out = addresses
    return x, gradient, bias[0] if bias else 0, out


def prepare(descriptor: ConvWeightGrad, tiles: Tile | None = None) -> WgradKernel:
    """A kernel for strided operands of one floating dtype. ``tiles`` overrides the choice of the
    tile size. Raises UnsupportedError for anything else."""
    descriptor = with_strides(descriptor)
    axes = axes_of(descriptor)
    made = plan(descriptor, axes, tiles)
    # For one small input tile a GEMM is faster, which packs the gradient once for all tiles.
    # Otherwise the loop nest is, which copies x, too: pixels of many channels map to the same few
    # cache sets.
    nbytes = sum(math.prod(place.shape) * place.dtype.itemsize for place in descriptor[:2])
    is_small = made.input_tiles == 1 and nbytes <= cpu.host().l2 // 2
    as_product = _product(descriptor, axes) if is_small else None
    if as_product:
        found = matmul.prepare(as_product, tiles)
        return WgradKernel(descriptor, f"a product: {found.about}", _operands_of(found))
    about = f"tiles of {tallest(made.cut)} x {made.vectors} vectors"
    return WgradKernel.of(GemmLoopNest, GemmArguments(descriptor, axes, made), about, _SPEED)


@compile.once
def _code(nest: type[LoopNest], dtype: DType, result: DType, pairs: bool) -> compile.Code:
    machine = target.host()
    about = f"{nest.__name__} wgrad {dtype} {result} {pairs} {compile.sources(FOLDER)}"
    assembly = functools.partial(loop_nest.assembly, nest, dtype, result, machine, pairs)
    return compile.load(about, assembly, machine, compile.Effort.LEAST)


def _product(descriptor: ConvWeightGrad, axes: Sequence[Axis]) -> Matmul | None:
    """The weight gradient of a 1 x 1 convolution as a GEMM:

    out (channels x features) = x (pixels x channels), transposed, @ gradient (pixels x features)

    None: the kernel has several positions, the stride of pixels varies, there is a bias gradient,
    or operands have half precision. ``loop_nest.py`` converts half precision in its copies.
    """
    *others, line = axes
    if (
        descriptor.x.dtype in HALF
        or descriptor.bias is not None
        or not line.is_plain
        or any(axis != Axis(1, 1) for axis in others)
    ):
        return None
    pixels, groups, dtype = line.size, descriptor.groups, descriptor.x.dtype
    channels = descriptor.x.shape[1] // groups
    features = descriptor.gradient.shape[1] // groups
    of_x, of_gradient = strides(descriptor.x)[1], strides(descriptor.gradient)[1]
    item = descriptor.out.dtype.itemsize
    group, feature, channel = (step // item for step in kernel_strides(descriptor, features))
    x, gradient = (step // dtype.itemsize for step in (line.x, line.gradient))
    return Matmul(
        Layout(dtype, (groups, channels, pixels), (of_x * channels, of_x, x)),
        Layout(dtype, (groups, pixels, features), (of_gradient * features, gradient, of_gradient)),
        Layout(descriptor.out.dtype, (groups, channels, features), (group, channel, feature)),
    )


def _operands_of(product: Kernel) -> Call:
    def call(addresses: tuple[int, int, int, int]) -> None:
        x, gradient, _, out = addresses
        product(x, gradient, out)

    return call
