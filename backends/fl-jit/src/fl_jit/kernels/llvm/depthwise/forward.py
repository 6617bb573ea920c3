"""Depthwise convolutions, convolutions of small groups, and their dgrad.

``loop_nest.py`` has the loops. Its arguments come from ``panels.py``, ``images.py`` and
``bounds.py``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from fl_jit.kernels.codegen import arg_struct, compile, target
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution
from fl_jit.kernels.layout import Layout, Placement, dense
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import FOLDER, epilogue
from fl_jit.kernels.llvm.conv import windows
from fl_jit.kernels.llvm.conv.implicit_gemm import Image, Weights, strided
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.depthwise import block, bounds, loop_nest
from fl_jit.kernels.llvm.depthwise.groups import Groups, Task
from fl_jit.kernels.llvm.depthwise.images import Images
from fl_jit.kernels.llvm.depthwise.kernel_args import FIELDS
from fl_jit.kernels.llvm.depthwise.panels import Panels
from fl_jit.kernels.llvm.launcher import Division, Launcher
from fl_tensor.dtypes import DType, float32, float64

#: Approximate multiply-adds per nanosecond.
_SPEED = 10.0


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


class DepthwiseKernel:
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
        reads: tuple[Placement, ...] = following.reads if following else ()
        self._written = following.writes if following else ()
        self.operands = (source, w, *reads, out, *self._written)
        self._follows = following is not None
        wide = float64 in (source.dtype, w.dtype, out.dtype)
        dtype = float64 if wide else float32
        kernel = (*[1] * (5 - len(out.shape)), *w.shape[2 - len(out.shape) :])
        task = Task(out.shape[0], descriptor.groups, Groups.of(descriptor), kernel, dtype)
        transposed = isinstance(descriptor, ConvDataGrad)
        panels = Panels.of(Weights.of(w, descriptor.groups, len(out.shape), transposed), task)
        known = block.is_known(task.groups, task.kernel[2])
        images = Images(Image.of(source), Image.of(out), axes, task, known)
        self._tables, tables = _tables(images, Image.of(out), panels, task)
        self.about = f"generated: depthwise{', copied' * (images.copies or images.buffers)}"
        values = panels.fields | images.fields | tables

        def divide(workers: int) -> Division:
            # Items: images, and their rows or some of their groups.
            items = out.shape[0] * values["row_groups"] * values["slices"]
            nbytes = panels.nbytes + workers * values["worker_bytes"]
            return Division((panels.items, items), {}, nbytes)

        work = out.elements * task.kernel_size * task.groups.source / _SPEED
        self._call = Launcher(_functions(dtype), FIELDS, values, divide, work, following)

    def __call__(self, *addresses: int) -> None:
        """Compute: source, weights[, inputs of the epilogue], out[, outputs of the epilogue]."""
        count = len(self.operands) - len(self._written)
        source, w, *reads, out = addresses[:count]
        followed = [out, *reads, out, *addresses[count:]] if self._follows else []
        self._call((source, w, out), followed)


@compile.once
def _functions(dtype: DType) -> tuple[int, int]:
    machine = target.host()
    about = f"depthwise {dtype} {compile.sources(FOLDER)}"
    assembly = functools.partial(loop_nest.assembly, dtype, machine)
    code = compile.load(about, assembly, machine, compile.Effort.LEAST)
    return code.address("first"), code.address("second")


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
