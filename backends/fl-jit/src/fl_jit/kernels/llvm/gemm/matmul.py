"""Matrix products: which of the ways to compute one is taken, and its kernel."""

from __future__ import annotations

from fl_jit.kernels.descriptors import Matmul
from fl_jit.kernels.layout import Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_jit.kernels.llvm import epilogue as epilogues
from fl_jit.kernels.llvm.gemm import plan, skinny_gemm
from fl_jit.kernels.llvm.gemm.gemm_problem import GemmProblem, by_strides, paired, task_of
from fl_jit.kernels.llvm.gemm.launch import GemmLauncher
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import float32, float64

#: Up to so many rows columns of y from so long on are read as rows: 1.1 to 1.6 times as fast.
_ROWS_OF_LONG, _LONG = 128, 2048


class Product:
    """A kernel for a Matmul."""

    workspace = 0

    def __init__(
        self,
        run: GemmLauncher,
        operands: tuple[Placement, ...],
        about: str,
        reads: int,
        swaps: bool,
    ) -> None:
        self.operands = operands
        self.about = about
        self._run = run
        self._reads = reads
        self._swaps = swaps

    def __call__(self, *addresses: int) -> None:
        """The addresses of x, y, what the epilogue reads, out, and what it writes."""
        x, y, *rest = addresses
        if self._swaps:
            x, y = y, x
        out = rest.pop(self._reads)
        read, written = rest[: self._reads], rest[self._reads :]
        self._run((x, y, out), (out, *read, out, *written))


def prepare(descriptor: Matmul, tiles: Tile | None = None) -> Kernel:
    """A kernel for ``problem``, in ``tiles`` where they are not left to the rule. Raises
    UnsupportedError for what it does not compute."""
    x, out = by_strides(descriptor.x), by_strides(descriptor.out)
    epilogue = epilogues.prepare(descriptor._replace(out=out))
    task, y = task_of(descriptor)
    if (
        descriptor.epilogue
        and task.packed is None
        and _has_long_columns(task)
        and not _is_dots(task)
    ):
        raise UnsupportedError("faster apart: rows and columns of the product change places")
    # An epilogue counts rows and columns of the result as it is.
    swaps = task.packed is None and epilogue is None and _is_better_transposed(task)
    task = task.transposed if swaps else task
    if _is_dots(task):
        if tiles is not None:
            raise UnsupportedError("dot products have no tiles")
        pitches = task.x.row_stride, task.y.col_stride, task.out.row_stride
        sizes = task.m, task.k, task.n
        run, about = skinny_gemm.planned(out.dtype, sizes, pitches, descriptor.accumulate, epilogue)
    else:
        task = paired(task)
        if tiles is not None and task.pairs:
            raise UnsupportedError("products of pairs have tiles of their own")
        run, about = plan.planned(task, descriptor.accumulate, epilogue, tiles)
    reads, writes = (epilogue.reads, epilogue.writes) if epilogue else ((), ())
    return Product(run, (x, y, *reads, out, *writes), about, len(reads), swaps)


def _is_dots(task: GemmProblem) -> bool:
    """Whether dot products are best: few rows, k contiguous in both factors, and no batch."""
    lies = task.x.is_by_rows and task.out.is_by_rows and task.y.transposed.is_by_rows
    same = task.x.dtype is task.y.dtype is task.out.dtype and task.out.dtype in (float32, float64)
    few = task.m <= skinny_gemm.MOST_ROWS <= task.k and not task.batch
    return task.packed is None and lies and same and few


def _is_better_transposed(task: GemmProblem) -> bool:
    """Whether rows and columns should change places: a result whose columns are contiguous."""
    out = task.out
    narrow = task.n == 1 < task.m and not _is_dots(task)
    turned = out.transposed.is_by_rows and (narrow or not out.is_by_rows)
    return turned or (_has_long_columns(task) and not _is_dots(task))


def _has_long_columns(task: GemmProblem) -> bool:
    """Whether y has long columns, for few rows of x: then packing y takes longer than to read it
    as rows of the first factor, and to put the sums of the others in their places at the end."""
    lies = task.y.transposed.is_by_rows and not task.y.is_by_rows
    return lies and task.m <= _ROWS_OF_LONG <= task.n and task.k >= _LONG
