"""Depthwise convolutions, convolutions of small groups, and their dgrad.

``loop_nest.py`` has the loops. Its arguments come from ``Panels``, ``images.py`` and ``bounds.py``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_jit.kernels.codegen import arg_struct, compile, target
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution
from fl_jit.kernels.layout import Layout, Placement, Shape, dense
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import FOLDER, epilogue, strided_copy
from fl_jit.kernels.llvm.conv import windows
from fl_jit.kernels.llvm.conv.forward import ImageKernel
from fl_jit.kernels.llvm.conv.implicit_gemm import Image, Weights, strided
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.depthwise import block, bounds, loop_nest
from fl_jit.kernels.llvm.depthwise.groups import Groups, Task
from fl_jit.kernels.llvm.depthwise.images import Images
from fl_jit.kernels.llvm.depthwise.kernel_args import FIELDS
from fl_jit.kernels.llvm.launcher import Division, Launcher, aligned
from fl_tensor.dtypes import DType, float32, float64

#: Approximate multiply-adds per nanosecond.
_SPEED = 10.0
#: Groups that are packed at a time.
_STEP = 256


def prepare(descriptor: Convolution) -> DepthwiseKernel:
    """A kernel for a convolution of small groups. Raises UnsupportedError."""
    x, w, out = strided(descriptor.x), _weights(descriptor.w), strided(descriptor.out)
    options = descriptor.stride, descriptor.padding, descriptor.dilation
    axes = windows.convolution(x.shape[2:], out.shape[2:], w.shape[-len(x.shape) + 2 :], *options)
    return DepthwiseKernel(descriptor, x, w, out, [[axis] for axis in axes])


def prepare_data(descriptor: ConvDataGrad) -> DepthwiseKernel:
    """A kernel for the dgrad of such a convolution. Raises UnsupportedError."""
    gradient, w, out = strided(descriptor.gradient), _weights(descriptor.w), strided(descriptor.out)
    kernel = w.shape[-len(out.shape) + 2 :]
    options = descriptor.stride, descriptor.padding, descriptor.dilation
    phases = list(windows.gradient(gradient.shape[2:], out.shape[2:], kernel, *options))
    # The phases are all combinations of the phases of each axis.
    axes = [list(dict.fromkeys(each)) for each in zip(*phases, strict=True)]
    return DepthwiseKernel(descriptor, gradient, w, out, axes)


def _weights(w: Placement) -> Layout:
    # An unspecified layout gets contiguous groups, which weights of single channels are read in.
    if isinstance(w, Layout) and w.strides is None:
        w = w._replace(strides=dense(w.shape, (*range(1, len(w.shape)), 0)))
    return strided(w)


class DepthwiseKernel(ImageKernel):
    """A sum over windows of each group. ``axes``: the phases of depth, height and width."""

    def __init__(
        self,
        descriptor: Convolution | ConvDataGrad,
        source: Layout,
        w: Layout,
        out: Layout,
        axes: Sequence[Sequence[Axis]],
    ) -> None:
        if 0 in (*source.shape, *w.shape, *out.shape):
            raise UnsupportedError("nothing to convolve")
        following = epilogue.prepare(descriptor)
        super().__init__(descriptor, source, w, out, following)
        wide = float64 in (source.dtype, w.dtype, out.dtype)
        dtype = float64 if wide else float32
        kernel = (*[1] * (5 - len(out.shape)), *w.shape[2 - len(out.shape) :])
        task = Task(out.shape[0], descriptor.groups, Groups.of(descriptor), kernel, dtype)
        transposed = isinstance(descriptor, ConvDataGrad)
        panels = Panels.of(Weights.of(w, descriptor.groups, len(out.shape), transposed), task)
        known = block.is_known(task.groups, task.kernel[2])
        images = Images(Image.of(source), Image.of(out), axes, task, known)
        tables, table_fields = _tables(images, Image.of(out), panels, task)
        self.about = f"generated: depthwise{', copied' * (images.copies or images.buffers)}"
        fields = panels.fields | images.fields | table_fields

        def divide(workers: int) -> Division:
            # Items: images, and their rows or some of their groups.
            items = out.shape[0] * fields["row_groups"] * fields["slices"]
            nbytes = panels.nbytes + workers * fields["worker_bytes"]
            return Division((panels.items, items), {}, nbytes)

        work = out.elements * task.kernel_size * task.groups.source / _SPEED
        self._call = Launcher(
            *(_code(dtype), FIELDS, fields, divide, work, following), owned=tables
        )


@compile.once
def _code(dtype: DType) -> compile.Code:
    machine = target.host()
    about = f"depthwise {dtype} {compile.sources(FOLDER)}"
    assembly = functools.partial(loop_nest.assembly, dtype, machine)
    return compile.load(about, assembly, machine, compile.Effort.LEAST)


def _tables(
    images: Images, result: Image, panels: Panels, task: Task
) -> tuple[object, dict[str, int]]:
    # The tables, which must live as long as the kernel, and the argument fields that depend on
    # windows.
    by = bounds.Distances(images.target, images.source, panels.places)
    some = images.fields["slice"]
    sizes = some, task.number % some or some
    best = block.best(task.groups, sizes, task.dtype, target.host(), task.kernel[2])
    line = bounds.line(images.axes[2], best.pixels, by, block.is_known(task.groups, task.kernel[2]))
    wanted = [best._replace(pixels=each.pixels, windows=each.windows) for each in line]
    codes = block.addresses(task.dtype, wanted)
    moves = [move * result.dtype.itemsize for move in (result.plane, result.row)]
    runs = bounds.runs(images.axes, by, images.fields["row_step"])
    tables = {
        "run_table": arg_struct.array(itertools.chain(*itertools.chain(*runs))),
        "first_runs": arg_struct.array(itertools.accumulate(map(len, runs), initial=0)),
        "target_rows": arg_struct.array(bounds.begins(images.axes, moves)),
        "column_table": arg_struct.array(
            bounds.column_table(line, [codes[each] for each in wanted])
        ),
    }
    steps = [bounds.step(a) * p for a, p in zip(images.axes, panels.places, strict=True)]
    names = "panels_kernel_plane", "panels_kernel_row", "panels_kernel_column"
    found = {name: arg_struct.address(table) for name, table in tables.items()}
    found |= {"columns": len(line), "panels_column": panels.places[2]}
    return tables, found | dict(zip(names, steps, strict=True))


class Panels(NamedTuple):
    """The packed layout of weights, unless they are read in place. For each place of the kernel and
    each turn (``groups.py``) it has a row with one element per channel of the source.

    fields   argument fields of the loop nest, except steps that depend on the windows
    places   bytes from place to place of the kernel: planes, rows, columns
    nbytes   bytes of workspace for the packed weights
    """

    fields: dict[str, int]
    places: list[int]
    nbytes: int

    @classmethod
    def of(cls, w: Weights, task: Task) -> Panels:
        """Panels of weights by strides."""
        _, number, groups, kernel, dtype = task
        item, given = dtype.itemsize, w.dtype.itemsize
        direct = groups == (1, 1) and w.group == 1 and w.dtype is dtype
        turn = number * groups.source * item
        column = turn * groups.target
        packed = [kernel[1] * kernel[2] * column, kernel[2] * column, column]
        rows, column_step = _merged(kernel, w.kernel)
        which = strided_copy.kind(0, groups.source, column_step if rows[2] > 1 else 1, w.group)
        nbytes = 0 if direct else aligned(kernel[0] * packed[0])
        fields = {
            "packed_inner": turn,
            "panels_direct": int(direct),
            "weights_move": 0 if direct else strided_copy.address(which, w.dtype, dtype),
            "pack_step": _STEP,
            "kernel_planes": rows[0],
            "kernel_rows": rows[1],
            "kernel_columns": rows[2],
            "packed_plane": packed[0],
            "packed_row": packed[1],
            "packed_column": packed[2],
            "packed_channel": item,
            "packed_group": groups.source * item,
            "weights_plane": w.kernel[0] * given,
            "weights_row": w.kernel[1] * given,
            "weights_column": column_step * given,
            "weights_group": w.group * given,
            "weights_feature": w.feature * given,
            "weights_channel": w.channel * given,
            "source_channels": groups.source,
            "target_channels": groups.target,
            "groups": number,
            "workers_at": nbytes,
        }
        return cls(fields, [step * item for step in w.kernel] if direct else packed, nbytes)

    @property
    def items(self) -> int:
        """Items of the first function of the loop nest: groups to pack."""
        return 0 if self.fields["panels_direct"] else -(-self.fields["groups"] // _STEP)


def _merged(kernel: Shape, strides: Shape) -> tuple[Shape, int]:
    """Planes, rows and columns of a kernel to copy, all merged into columns if they are
    equidistant; and the distance between columns."""
    pairs = [pair for pair in zip(kernel, strides, strict=True) if pair[0] > 1]
    if all(a[1] == b[0] * b[1] for a, b in itertools.pairwise(pairs)):
        return (1, 1, math.prod(kernel)), pairs[-1][1] if pairs else 0
    return kernel, strides[2]
