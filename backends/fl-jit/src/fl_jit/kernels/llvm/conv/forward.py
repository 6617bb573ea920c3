"""Kernels of convolutions and of their data gradients (dgrad), which are also transposed
convolutions.

Both are a sum over windows (``windows.py``). ``loop_nest.py`` describes the computation. The order
of additions depends only on the sizes of the kernel and the channels. Results are therefore the
same for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fl_jit.kernels.codegen import threads
from fl_jit.kernels.codegen.arg_struct import address, array
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution
from fl_jit.kernels.layout import Layout, Packed, Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_jit.kernels.llvm import epilogue
from fl_jit.kernels.llvm.conv import loop_nest, windows
from fl_jit.kernels.llvm.conv.implicit_gemm import (
    Image,
    ImplicitGemm,
    Panels,
    Weights,
    paired,
    strided,
)
from fl_jit.kernels.llvm.conv.kernel_args import JOB
from fl_jit.kernels.llvm.conv.panels import Packing, PrepackedLayout
from fl_jit.kernels.llvm.conv.passes import Pass
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.epilogue import Prepared
from fl_jit.kernels.llvm.launcher import BoundCall, Division, Launcher, Operands, aligned
from fl_jit.kernels.llvm.tile import Tile

#: Operations per nanosecond of one thread, approximately.
_SPEED = 60.0
_ALIGNMENT = 64


def prepare(descriptor: Convolution | ConvDataGrad, tiles: Tile | None = None) -> Kernel:
    """A kernel for the descriptor. ``tiles`` overrides the choice of the tile size. Raises
    UnsupportedError."""
    transposed = isinstance(descriptor, ConvDataGrad)
    operands = source, w, out = strided(descriptor[0]), descriptor.w, strided(descriptor.out)
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
    return ConvolutionKernel(descriptor, paired(task), operands, tiles)


def _weights(w: Placement, groups: int, rank: int, transposed: bool) -> Weights:
    # Without strides, only the dtype matters.
    if isinstance(w, Layout) and w.strides is not None:
        return Weights.of(strided(w), groups, rank, transposed)
    return Weights(w.dtype, 0, 0, 0, (0, 0, 0))


class ImageKernel:
    """A kernel of a convolution or of its dgrad, with its epilogue. Derived classes set ``about``
    and ``_call``, which computes on the addresses of the source, the weights and the result."""

    about: str
    _call: Launcher

    def __init__(
        self,
        descriptor: Convolution | ConvDataGrad,
        source: Placement,
        w: Placement,
        out: Placement,
        following: Prepared | None,
    ) -> None:
        reads, writes = (following.reads, following.writes) if following else ((), ())
        self.operands = (source, w, *reads, out, *writes)
        self._inputs = len(self.operands) - len(writes)
        self._has_epilogue = following is not None

    def __call__(self, *addresses: int) -> None:
        """Compute: source, weights[, inputs of the epilogue], out[, outputs of the epilogue]."""
        self._call(*self._arguments(addresses))

    def bound(self) -> BoundCall:
        """A call with arguments of its own, for the present number of threads."""
        return self._call.bound(self._arguments)

    def _arguments(self, addresses: Sequence[int]) -> Operands:
        source, w, *reads, out = addresses[: self._inputs]
        followed = [out, *reads, out, *addresses[self._inputs :]] if self._has_epilogue else ()
        return (source, w, out), followed


class ConvolutionKernel(ImageKernel):
    """Computes an ``ImplicitGemm``.

    ``operands`` are the source, the weights and the result. Weights are strided, packed, or in the
    layout that the kernel prefers. ``tiles`` overrides the choice of the tile size.
    """

    def __init__(
        self,
        descriptor: Convolution | ConvDataGrad,
        task: ImplicitGemm,
        operands: tuple[Placement, Placement, Placement],
        tiles: Tile | None = None,
    ) -> None:
        following = epilogue.prepare(descriptor)
        if following is not None and len(task.windows) > 1:
            # The phases of a stride would run the epilogue position by position. That takes 5 to
            # 20 % more time than the epilogue as a pass of its own.
            raise UnsupportedError("an epilogue takes rows in their order, not phases of a stride")
        if not task.results:
            task = task._replace(windows=())
        if tiles is not None and task.pairs:
            raise UnsupportedError("products of pairs have tiles of their own")
        x, w, out = operands
        line = max((_line(axes) for axes in task.windows), default=1)
        panels = Panels.of(task.dtype, task.features, line, task.products, task.pairs, tiles)
        if isinstance(w, Packed) and isinstance(w.opaque, PrepackedLayout):
            panels = w.opaque.panels
        passes = [Pass(task, axes, panels, threads.limit()) for axes in task.windows]
        places = tuple(each.kernel_places for each in passes)
        sizes = task.groups, task.channels, task.features
        transposed = isinstance(descriptor, ConvDataGrad)
        layout = PrepackedLayout(transposed, *sizes, panels, places, task.pairs, task.odd)
        if isinstance(w, Packed) and w.opaque != layout:
            raise UnsupportedError(f"{w!r} are weights packed for something else")
        if isinstance(w, Layout) and w.strides is None:
            dtype = w.dtype if task.pairs else task.dtype
            w = Packed(dtype, w.shape, layout.nbytes, layout)
        super().__init__(descriptor, x, w, out, following)
        packed = isinstance(w, Packed)
        packings = [Packing(layout, task.weights, number) for number in range(len(passes))]
        blocks = [each.block(packing) for each, packing in zip(passes, packings, strict=True)]
        pointers = array(address(block) for block in blocks)
        items = sum(each.items for each in passes)
        packs = 0 if packed else sum(packing.fields["pack_items"] for packing in packings)
        each = max([p.worker_bytes for p in passes] + [p.scratch for p in packings], default=0)
        worker_bytes = aligned(each) + _ALIGNMENT
        panels_bytes = 0 if packed else aligned(layout.nbytes)
        fields = {
            "packed": int(packed),
            "scratch_at": panels_bytes,
            "worker_bytes": worker_bytes,
            "items": items,
            "passes": address(pointers),
        }

        def divide(workers: int) -> Division:
            return Division((packs, workers), {}, panels_bytes + workers * worker_bytes)

        self._call = Launcher(
            *(loop_nest.code(), JOB, fields, divide, task.operations / _SPEED, following),
            most_workers=max(items, 1),
            owned=(pointers, passes, packings, blocks),  # the kernel arguments point into these
        )
        self.about = f"generated, {panels.most_rows} x {panels.width}"


def _line(axes: tuple[Axis, Axis, Axis]) -> int:
    # Approximate length of lines. If all axes are pointwise, all positions form one line.
    if all(axis.is_pointwise for axis in axes):
        return math.prod(axis.places for axis in axes)
    return axes[2].places
