"""Matrix products: choice of the algorithm, and the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from fl_jit.kernels.descriptors import Matmul
from fl_jit.kernels.layout import Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_jit.kernels.llvm import epilogue as epilogues
from fl_jit.kernels.llvm.gemm import plan, skinny_gemm
from fl_jit.kernels.llvm.gemm.gemm_problem import GemmProblem, by_strides, paired, task_of
from fl_jit.kernels.llvm.launcher import BoundCall, Launcher, Operands
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import float32, float64

#: Maximum rows of x, and minimum length of the columns of y, for which columns of y are read as
#: rows of A: 1.1 to 1.6 times as fast.
_ROWS_OF_LONG, _LONG = 128, 2048


class Product:
    """A kernel for a Matmul."""

    def __init__(
        self,
        run: Launcher,
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
        """The addresses of x, y, inputs of the epilogue, out, and outputs of the epilogue."""
        self._run(*self.arguments(addresses))

    def arguments(self, addresses: Sequence[int]) -> Operands:
        """The operands of the loop nest, and those of its epilogue."""
        x, y, *rest = addresses
        if self._swaps:
            x, y = y, x
        out = rest.pop(self._reads)
        read, written = rest[: self._reads], rest[self._reads :]
        return (x, y, out), (out, *read, out, *written)

    def bound(self) -> BoundCall:
        """A call with arguments of its own, for the present number of threads."""
        return self._run.bound(self.arguments)


def prepare(descriptor: Matmul, tiles: Tile | None = None) -> Kernel:
    """A kernel for ``descriptor``, in ``tiles`` if given, else in the tile of the rule. Raises
    UnsupportedError for unsupported descriptors."""
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
    # An epilogue numbers rows and columns of the result without a transposition.
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
    """Whether dot products are best: few rows, k contiguous in both operands, and no batch."""
    is_contiguous = task.x.is_by_rows and task.out.is_by_rows and task.y.transposed.is_by_rows
    same = task.x.dtype is task.y.dtype is task.out.dtype and task.out.dtype in (float32, float64)
    few = task.m <= skinny_gemm.MOST_ROWS <= task.k and not task.batch
    return task.packed is None and is_contiguous and same and few


def _is_better_transposed(task: GemmProblem) -> bool:
    """Whether to compute the transposed product: for a result with contiguous columns."""
    out = task.out
    narrow = task.n == 1 < task.m and not _is_dots(task)
    turned = out.transposed.is_by_rows and (narrow or not out.is_by_rows)
    return turned or (_has_long_columns(task) and not _is_dots(task))


def _has_long_columns(task: GemmProblem) -> bool:
    """Whether y has long columns and x few rows. Packing y then takes longer than reading it as
    rows of A, and writing the accumulators transposed at the end."""
    has_columns = task.y.transposed.is_by_rows and not task.y.is_by_rows
    return has_columns and task.m <= _ROWS_OF_LONG <= task.n and task.k >= _LONG
