"""GEMM problems: matrices with strides in bytes, and their properties that are known in advance.

Adjacent batch axes are merged, and rows of a batch become rows of one GEMM where strides allow.
Pairs of bfloat16 are elements where the processor multiplies pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import target
from fl_jit.kernels.descriptors import Matmul
from fl_jit.kernels.layout import Layout, Packed, Placement, Shape, row_major
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import tile
from fl_jit.kernels.llvm.gemm import blocking
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import DType, bfloat16, float32, float64

#: Rows and vectors of columns of a GEMM that is large enough for any tile: packed operands are the
#: same for all of these.
LARGE = 100, 100


class Matrix(NamedTuple):
    """A batch of matrices: bytes from row to row, from column to column, and from one matrix to the
    next along each batch axis."""

    dtype: DType
    row_stride: int
    col_stride: int
    batch: Shape

    @property
    def transposed(self) -> Matrix:
        """The transposed matrix."""
        return self._replace(row_stride=self.col_stride, col_stride=self.row_stride)

    @property
    def is_by_rows(self) -> bool:
        """Whether the elements of a row are contiguous."""
        return self.col_stride == self.dtype.itemsize


class GemmProblem(NamedTuple):
    """out (m x n) = x (m x k) y (k x n), for each element of a batch.

    ``packed`` is the layout of y if y is prepacked or is to be. With ``pairs`` k and its strides
    count pairs of bfloat16 (``microkernel.py``). Matrices that already have the layout of pairs
    have the dtype float32, which has as many bytes; other ones have bfloat16.
    """

    m: int
    k: int
    n: int
    batch: Shape
    x: Matrix
    y: Matrix
    out: Matrix
    packed: Packed | None = None
    pairs: bool = False

    @property
    def transposed(self) -> GemmProblem:
        """The same product of transposed matrices: out^T = y^T x^T."""
        x, y, out = self.y.transposed, self.x.transposed, self.out.transposed
        return self._replace(m=self.n, n=self.m, x=x, y=y, out=out)

    def mixes(self, matrix: Matrix) -> bool:
        """Whether two rows of a matrix become one row of pairs."""
        return self.pairs and matrix.dtype is bfloat16


def by_strides(given: Placement) -> Layout:
    """An operand with strides, including one whose strides are unspecified. Raises
    UnsupportedError."""
    if not isinstance(given, Layout):
        raise UnsupportedError(f"{given!r} is no factor of a product")
    return row_major(given.dtype, given.shape) if given.strides is None else given


def task_of(descriptor: Matmul) -> tuple[GemmProblem, Placement]:
    """The GEMM problem and the layout of operand B. Raises UnsupportedError for dtypes and shapes
    that do not fit, and for a layout that was packed for another operation."""
    x, y, out = by_strides(descriptor.x), descriptor.y, by_strides(descriptor.out)
    dtype = computed(out.dtype)
    if dtype not in (float32, float64) or {
        computed(x.dtype),
        computed(y.dtype),
    } != {dtype}:
        raise UnsupportedError(f"a product of {x.dtype} and {y.dtype} as {out.dtype}")
    (*places, m, n), k = out.shape, x.shape[-1]
    if x.shape[-2] != m or y.shape[-2:] != (k, n):
        raise UnsupportedError(f"no product of {x.shape} and {y.shape} has shape {out.shape}")
    left, goal = _matrix(x, places), _matrix(out, places)
    packed = None
    if isinstance(y, Packed) or y.strides is None:
        pairs = y.dtype is bfloat16 and _makes_pairs(left, y.dtype, k)
        if pairs or y.dtype is dtype:
            packed = packed_layout(y.dtype, y.shape)
        if isinstance(y, Packed) and y != packed:
            raise UnsupportedError(f"{y!r} was packed for something else")
    if packed is not None:
        y = packed
        batch = y.shape[:-2]
        each = y.nbytes // max(math.prod(batch), 1) // dtype.itemsize
        right = _matrix(row_major(dtype, (*batch, each, 1)), places)._replace(
            row_stride=0, col_stride=0
        )
    else:
        y = by_strides(y)
        right = _matrix(y, places)
    # Axes of length 1 get the most favorable stride.
    if k == 1:
        left = left._replace(col_stride=left.dtype.itemsize)
    if n == 1:
        goal = goal._replace(col_stride=goal.dtype.itemsize)
    return _merged(GemmProblem(m, k, n, tuple(places), left, right, goal, packed)), y


def packed_layout(dtype: DType, shape: Shape) -> Packed:
    """The packed layout of operand B of a GEMM, (..., k, n): of float32, float64, or, where the
    processor multiplies pairs, pairs of bfloat16."""
    *batch, k, n = shape
    item = max(dtype.itemsize, 4)
    pairs = dtype is bfloat16
    k = k // 2 if pairs else k
    lanes = target.host().lanes(item)
    best = tile.of_product(cpu.host(), *LARGE, k=k)
    depth = blocking.k_block(k, best.rows, item)
    columns = -(-n // lanes) * lanes
    nbytes = math.prod(batch) * k * columns * item
    return Packed(dtype, shape, nbytes, ("factor", depth, best.vectors * lanes))


def paired(task: GemmProblem) -> GemmProblem:
    """The same GEMM on pairs of bfloat16. Requires an instruction for pairs, and both matrices in a
    layout from which pairs can be made quickly."""
    x, y = task.x, task.y
    packed = task.packed is not None and task.packed.dtype is bfloat16
    if not packed and not _makes_pairs(x, y.dtype, task.k):
        return task
    if not packed and y.transposed.is_by_rows:
        y = y._replace(dtype=float32, row_stride=4)
    elif not packed and y.is_by_rows:
        y = y._replace(row_stride=2 * y.row_stride)
    elif not packed:
        return task
    if x.is_by_rows:
        x = x._replace(dtype=float32, col_stride=4)
    else:
        x = x._replace(col_stride=2 * x.col_stride)
    return task._replace(k=task.k // 2, x=x, y=y, pairs=True)


def _makes_pairs(x: Matrix, other: DType, k: int) -> bool:
    """Whether ``x`` times a matrix of dtype ``other`` can use pairs."""
    fits = {x.dtype, other} == {bfloat16} and k % 2 == 0 and target.host().has_bfloat_products
    return fits and (x.is_by_rows or x.transposed.is_by_rows)


def _matrix(given: Layout, places: Sequence[int]) -> Matrix:
    item = given.dtype.itemsize
    assert given.strides is not None
    *batch, row_stride, col_stride = (stride * item for stride in given.strides)
    sizes = given.shape[:-2]
    batch = [0 if size == 1 else stride for size, stride in zip(sizes, batch, strict=True)]
    if len(sizes) != len(places) or any(
        s not in (1, p) for s, p in zip(sizes, places, strict=True)
    ):
        raise UnsupportedError(f"{given} for a batch of {tuple(places)}")
    return Matrix(given.dtype, row_stride, col_stride, tuple(batch))


def _merged(task: GemmProblem) -> GemmProblem:
    """The problem with as few batch axes and as many rows as possible."""
    sizes: list[int] = []
    moves: list[tuple[int, ...]] = []
    for axis, size in enumerate(task.batch):
        step = tuple(each.batch[axis] for each in (task.x, task.y, task.out))
        if size == 1:
            continue
        if sizes and moves[-1] == tuple(s * size for s in step):
            sizes[-1], moves[-1] = sizes[-1] * size, step
        else:
            sizes.append(size)
            moves.append(step)
    m = task.m
    if sizes and moves[-1] == (m * task.x.row_stride, 0, m * task.out.row_stride):
        m *= sizes.pop()
        moves.pop()
    x, y, out = (
        each._replace(batch=tuple(step[i] for step in moves))
        for i, each in enumerate((task.x, task.y, task.out))
    )
    return task._replace(m=m, batch=tuple(sizes), x=x, y=y, out=out)
