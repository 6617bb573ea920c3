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
from fl_jit.kernels.llvm.conv.panels import PrepackedLayout
from fl_jit.kernels.llvm.conv.passes import Pass
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.epilogue import Prepared
from fl_jit.kernels.llvm.launcher import Division, Launcher
from fl_jit.kernels.llvm.tile import Tile

#: Operations per nanosecond of one thread, approximately.
_SPEED = 60.0
_ALIGNMENT = 64


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
    operands = (source, w, *reads, out, *writes)
    return ConvolutionKernel(paired(task), operands, transposed, following, tiles)


def _weights(w: Placement, groups: int, rank: int, transposed: bool) -> Weights:
    # Without strides, only the dtype matters.
    if isinstance(w, Layout) and w.strides is not None:
        return Weights.of(strided(w), groups, rank, transposed)
    return Weights(w.dtype, 0, 0, 0, (0, 0, 0))


class ConvolutionKernel:
    """Computes an ``ImplicitGemm``.

    The second of ``operands`` are the weights: strided, packed, or in the layout that the kernel
    prefers. ``transposed``: their features are the reduced axis. ``tiles`` overrides the choice of
    the tile size.
    """

    def __init__(
        self,
        task: ImplicitGemm,
        operands: Sequence[Placement],
        transposed: bool = False,
        following: Prepared | None = None,
        tiles: Tile | None = None,
    ) -> None:
        if not task.results:
            task = task._replace(windows=())
        if tiles is not None and task.pairs:
            raise UnsupportedError("products of pairs have tiles of their own")
        x, w, *others = operands
        line = max((_line(axes) for axes in task.windows), default=1)
        panels = Panels.of(task.dtype, task.features, line, task.products, task.pairs, tiles)
        if isinstance(w, Packed) and isinstance(w.opaque, PrepackedLayout):
            panels = w.opaque.panels
        passes = [Pass(task, axes, panels, threads.limit()) for axes in task.windows]
        places = tuple(each.kernel_places for each in passes)
        sizes = task.groups, task.channels, task.features
        layout = PrepackedLayout(transposed, *sizes, panels, places, task.pairs, task.odd)
        if isinstance(w, Packed) and w.opaque != layout:
            raise UnsupportedError(f"{w!r} are weights packed for something else")
        if isinstance(w, Layout) and w.strides is None:
            dtype = w.dtype if task.pairs else task.dtype
            w = Packed(dtype, w.shape, layout.nbytes, layout)
        self.operands = (x, w, *others)
        packed = isinstance(w, Packed)
        packings = [layout.packing(task.weights, number) for number in range(len(passes))]
        blocks = [each.block(packing) for each, packing in zip(passes, packings, strict=True)]
        self._pointers = array(address(block) for block in blocks)
        self._owned = passes, packings, blocks  # the kernel arguments point into these
        self.panels_bytes = layout.nbytes
        self._items = sum(each.items for each in passes)
        packs = 0 if packed else sum(packing.fields["pack_items"] for packing in packings)
        each = max([p.worker_bytes for p in passes] + [p.scratch for p in packings], default=0)
        worker_bytes = _up(each) + _ALIGNMENT
        panels_bytes = 0 if packed else _up(layout.nbytes)
        fields = {
            "packed": int(packed),
            "scratch_at": panels_bytes,
            "worker_bytes": worker_bytes,
            "items": self._items,
            "packs": packs,
            "passes": address(self._pointers),
        }

        def divide(workers: int) -> Division:
            return Division((packs, workers), {}, panels_bytes + workers * worker_bytes)

        work = task.operations / _SPEED
        functions = loop_nest.functions()
        self._call = Launcher(functions, JOB, fields, divide, work, following, self._items)
        self._follows = following is not None
        self._written = len(following.writes) if following else 0
        self.about = f"generated, {panels.most_rows} x {panels.width}"

    def __call__(self, *addresses: int) -> None:
        if not self._items:
            return
        count = len(self.operands) - self._written
        x, w, *reads, out = addresses[:count]
        followed = [out, *reads, out, *addresses[count:]] if self._follows else ()
        self._call((x, w, out), followed)


def _up(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _line(axes: tuple[Axis, Axis, Axis]) -> int:
    # Approximate length of lines. If all axes are pointwise, all positions form one line.
    if all(axis.is_pointwise for axis in axes):
        return math.prod(axis.places for axis in axes)
    return axes[2].places
