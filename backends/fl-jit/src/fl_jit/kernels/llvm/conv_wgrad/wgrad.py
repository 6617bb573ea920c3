"""Kernels of the gradient of a convolution's weights, and of its bias.

    out[tap, channel, feature] = sum over pixels: x[pixel + tap, channel] * gradient[pixel, feature]

is a GEMM whose reduction axis are the pixels. ``loop_nest.py`` lists the loops, ``plan.py`` the
division of a descriptor. Weights are written with any strides. Channels-last images are fastest.
Others are transposed by the copies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.library import Kernel
from fl_jit.kernels.llvm import FOLDER, caches
from fl_jit.kernels.llvm.conv_wgrad import loop_nest, pointwise
from fl_jit.kernels.llvm.conv_wgrad.arguments import WgradArguments
from fl_jit.kernels.llvm.conv_wgrad.axes import axes_of
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import FIELDS
from fl_jit.kernels.llvm.conv_wgrad.operands import settled
from fl_jit.kernels.llvm.conv_wgrad.plan import plan, tallest
from fl_jit.kernels.llvm.gemm import matmul
from fl_jit.kernels.llvm.launcher import Launcher
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import DType

#: Floating-point operations per nanosecond, approximately.
_SPEED = 50.0


#: A function of the addresses of x, the gradient, the bias (0: none) and the result.
Call: TypeAlias = Callable[[tuple[int, int, int, int]], None]


class WgradKernel:
    """A wgrad kernel that computes by ``call``."""

    workspace = 0

    def __init__(self, descriptor: ConvWeightGrad, about: str, call: Call) -> None:
        bias = () if descriptor.bias is None else (descriptor.bias,)
        self.operands = (descriptor.x, descriptor.gradient, *bias, descriptor.out)
        self.about = f"generated: {about}"
        self._call = call

    def __call__(self, *addresses: int) -> None:
        """Compute: x, gradient[, bias], out."""
        x, gradient, *bias, out = addresses
        self._call((x, gradient, bias[0] if bias else 0, out))


def prepare(descriptor: ConvWeightGrad, tiles: Tile | None = None) -> WgradKernel:
    """A kernel for strided operands of one floating dtype. ``tiles`` overrides the choice of the
    tile size. Raises UnsupportedError for anything else."""
    descriptor = settled(descriptor)
    axes = axes_of(descriptor)
    made = plan(descriptor, axes, tiles)
    # For one small input tile a GEMM is faster, which packs the gradient once for all tiles.
    # Otherwise the loop nest is, which copies x, too: pixels of many channels map to the same few
    # cache sets.
    nbytes = sum(math.prod(place.shape) * place.dtype.itemsize for place in descriptor[:2])
    is_small = made.input_tiles == 1 and nbytes <= caches.level(2) // 2
    as_product = pointwise.product(descriptor, axes) if is_small else None
    if as_product:
        found = matmul.prepare(as_product, tiles)
        return WgradKernel(descriptor, f"a product: {found.about}", _operands_of(found))
    job = WgradArguments(descriptor, axes, made)
    work = 2.0 * math.prod(a.size * a.kernel for a in axes) * job.channels
    work *= descriptor.gradient.shape[1] / _SPEED
    functions = _functions(job.dtype, descriptor.out.dtype, made.pairs)
    about = (
        f"tiles of {tallest(made.cut)} x {made.vectors} vectors, {made.input_tiles} "
        f"strips in {made.parts} parts"
    )
    call = Launcher(functions, FIELDS, job.words, job.divide, work, owned=job.tables)
    return WgradKernel(descriptor, about, call)


def _operands_of(product: Kernel) -> Call:
    def call(addresses: tuple[int, int, int, int]) -> None:
        x, gradient, _, out = addresses
        product(x, gradient, out)

    return call


@compile.once
def _functions(dtype: DType, result: DType, pairs: bool) -> tuple[int, int]:
    machine = target.host()
    about = f"weights {dtype} {result} {pairs} {compile.sources(FOLDER)}"
    assembly = functools.partial(loop_nest.assembly, dtype, result, machine, pairs)
    code = compile.load(about, assembly, machine, compile.Effort.LEAST)
    return code.address("first"), code.address("second")
