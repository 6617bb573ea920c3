"""Kernels of convolutions and of their data gradients (dgrad), which are also transposed
convolutions.

Both are a sum over windows (``windows.py``). ``loop_nest.py`` describes the computation.
"""

from __future__ import annotations

from fl_jit.kernels.descriptors import ConvDataGrad, Convolution
from fl_jit.kernels.layout import Layout, Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_jit.kernels.llvm import epilogue
from fl_jit.kernels.llvm.conv import windows
from fl_jit.kernels.llvm.conv.implicit_gemm import Image, ImplicitGemm, Weights, paired, strided
from fl_jit.kernels.llvm.conv.kernel import ConvolutionKernel
from fl_jit.kernels.llvm.tile import Tile


def prepare(descriptor: Convolution | ConvDataGrad, tiles: Tile | None = None) -> Kernel:
    """A kernel for the descriptor. ``tiles`` overrides the choice of the tile size. Raises
    UnsupportedError."""
    transposed = isinstance(descriptor, ConvDataGrad)
    source, w, out = strided(descriptor[0]), descriptor.w, strided(descriptor.out)
    groups, rank = descriptor.groups, len(out.shape)
    seen = source.shape[2:], out.shape[2:], w.shape[2 - rank :]
    options = descriptor.stride, descriptor.padding, descriptor.dilation
    if transposed:
        axes = tuple(windows.gradient(*seen, *options))
    else:
        axes = (windows.convolution(*seen, *options),)
    task = ImplicitGemm(
        source=Image.of(source),
        target=Image.of(out),
        weights=_weights(w, groups, rank, transposed),
        batch=out.shape[0],
        groups=groups,
        channels=source.shape[1] // groups,
        features=out.shape[1] // groups,
        windows=axes,
    )
    following = epilogue.prepare(descriptor)
    if following is not None and len(task.windows) > 1:
        # The phases of a stride would run the epilogue position by position. That takes 5 to 20 %
        # more time than the epilogue as a pass of its own.
        raise UnsupportedError("an epilogue follows places in their order, not phases of a stride")
    reads: tuple[Placement, ...] = following.reads if following else ()
    writes = following.writes if following else ()
    bias = getattr(descriptor, "bias", None)
    if bias is not None and descriptor.epilogue is None:
        reads = (bias,)
    operands = (source, w, *reads, out, *writes)
    return ConvolutionKernel(paired(task), operands, transposed, following, tiles)


def _weights(w: Placement, groups: int, rank: int, transposed: bool) -> Weights:
    # Without strides, only the dtype matters.
    if isinstance(w, Layout) and w.strides is not None:
        return Weights.of(strided(w), groups, rank, transposed)
    return Weights(w.dtype, 0, 0, 0, (0, 0, 0))
