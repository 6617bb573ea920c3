"""Matrix products: how a problem becomes a job of the loop nest in ``gemm.py``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_tensor.backends.providers.generated import amx, caches, library, tile
from fl_tensor.backends.providers.generated import epilogue as epilogues
from fl_tensor.backends.providers.generated.epilogue import Prepared
from fl_tensor.backends.providers.generated.microkernel import MicroKernel
from fl_tensor.backends.providers.generated.products import blocks, dots, gemm, packing
from fl_tensor.backends.providers.generated.products.job import Runner
from fl_tensor.backends.providers.generated.tile import Cut, Tile
from fl_tensor.backends.providers.layout import Layout, Packed, Placement, Shape, row_major
from fl_tensor.backends.providers.problems import Matmul
from fl_tensor.backends.providers.provider import Kernel, UnsupportedError
from fl_tensor.codegen import target, threads
from fl_tensor.dtypes import DType, bfloat16, float32, float64

#: Floating operations of a thread in a nanosecond, about: what decides how many threads a product
#: is worth.
SPEED = 60.0
#: A product of so few rows reads B once: in few rows of it at a time, which are streams that the
#: processor follows, from one end to the other.
_STREAMED_ROWS, _STREAMED_DEPTH = 2, 8
#: Rows of a tile from which on they fight for the places of L1, if they are a multiple of so many
#: bytes apart.
_MANY_ROWS, _CONFLICT = 9, 2048
#: How many rows a product may have whose B is as large as L2, for B to be read as it is.
_FEW_ROWS = 512
#: Rows and vectors of columns of a product that is large enough for any tile: packed operands are
#: the same for all.
_LARGE = 100, 100
#: Up to so many rows columns of y from so long on are read as rows: 1.1 to 1.6 times as fast.
_ROWS_OF_LONG, _LONG = 128, 2048


class Matrix(NamedTuple):
    """A batch of matrices: bytes from row to row, from column to column, and from one matrix to the
    next along each axis of the batch."""

    dtype: DType
    down: int
    along: int
    batch: Shape

    @property
    def transposed(self) -> Matrix:
        """Rows as columns."""
        return self._replace(down=self.along, along=self.down)

    @property
    def is_by_rows(self) -> bool:
        """Whether the elements of a row are side by side."""
        return self.along == self.dtype.itemsize


class Task(NamedTuple):
    """out (m x n) = x (m x k) y (k x n), at each place of a batch. ``packed`` is y's layout where
    it is packed already, or is to be. With ``pairs`` k and its distances are of pairs of bfloat16
    (``microkernel.py``); matrices of pairs that lie as they should are said to be of float32, which
    has as many bytes, others of bfloat16."""

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
    def transposed(self) -> Task:
        """The same product of transposed matrices: out^T = y^T x^T."""
        x, y, out = self.y.transposed, self.x.transposed, self.out.transposed
        return self._replace(m=self.n, n=self.m, x=x, y=y, out=out)


class Product:
    """A kernel for a Matmul."""

    workspace = 0

    def __init__(
        self, run: Runner, operands: tuple[Placement, ...], about: str, reads: int, swaps: bool
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


def prepare(problem: Matmul, tiles: Tile | None = None) -> Kernel:
    """A kernel for ``problem``, in ``tiles`` where they are not left to the rule. Raises
    UnsupportedError for what it does not compute."""
    x, out = _by_strides(problem.x), _by_strides(problem.out)
    epilogue = epilogues.prepare(problem._replace(out=out))
    task, y = _task(x, problem.y, out)
    if problem.epilogue and task.packed is None and _has_long_columns(task) and not _is_dots(task):
        raise UnsupportedError("faster apart: rows and columns of the product change places")
    # An epilogue counts rows and columns of the result as it is.
    swaps = task.packed is None and epilogue is None and _is_better_transposed(task)
    task = task.transposed if swaps else task
    if _is_dots(task):
        if tiles is not None:
            raise UnsupportedError("dot products have no tiles")
        pitches = task.x.down, task.y.along, task.out.down
        sizes = task.m, task.k, task.n
        run, about = dots.planned(out.dtype, sizes, pitches, problem.accumulate, epilogue)
    else:
        task = _paired(task)
        if tiles is not None and task.pairs:
            raise UnsupportedError("products of pairs have tiles of their own")
        run, about = _planned(task, problem.accumulate, epilogue, tiles)
    reads, writes = (epilogue.reads, epilogue.writes) if epilogue else ((), ())
    return Product(run, (x, y, *reads, out, *writes), about, len(reads), swaps)


def _is_dots(task: Task) -> bool:
    """Whether dot products are best: few rows, k contiguous in both factors, and no batch."""
    lies = task.x.is_by_rows and task.out.is_by_rows and task.y.transposed.is_by_rows
    same = task.x.dtype is task.y.dtype is task.out.dtype and task.out.dtype in (float32, float64)
    few = task.m <= dots.MOST_ROWS <= task.k and not task.batch
    return task.packed is None and lies and same and few


def packed_layout(dtype: DType, shape: Shape) -> Packed:
    """The layout that the second factor of a product, (..., k, n), has when it is packed: of
    float32, float64, or, where that is computed with, pairs of bfloat16."""
    *batch, k, n = shape
    machine, item = target.host(), max(dtype.itemsize, 4)
    pairs = dtype is bfloat16
    k = k // 2 if pairs else k
    lanes = machine.lanes(item)
    best = tile.of_product(machine, *_LARGE)
    vectors = amx.BEST.vectors if pairs and amx.is_usable(machine) else best.vectors
    depth = blocks.k_block(k, best.rows, item)
    columns = -(-n // lanes) * lanes
    nbytes = math.prod(batch) * k * columns * item
    return Packed(dtype, shape, nbytes, ("factor", depth, vectors * lanes))


def _planned(
    task: Task, accumulate: bool, epilogue: Prepared | None, tiles: Tile | None
) -> tuple[Runner, str]:
    machine, dtype = target.host(), packing.computed(task.out.dtype)
    item, lanes = dtype.itemsize, target.host().lanes(dtype.itemsize)
    m, k, n = task.m, task.k, task.n
    vectors = max(-(-n // lanes), 1)  # of columns
    shape = tile.of_product(machine, *(_LARGE if task.packed else (max(m, 1), vectors)))
    if tiles is not None:
        shape = Tile(tiles.rows, min(tiles.vectors, vectors))
    elif task.pairs and amx.is_usable(machine):
        tall = tile.best(machine) if _mixes(task, task.x) else amx.BEST
        wide = amx.BEST.vectors
        shape = Tile(tall.rows, wide if task.packed else min(wide, vectors))
    width = shape.vectors * lanes
    rows = tile.balanced(m, shape.rows)
    panels = max(-(-n // width), 1)
    last = n - (panels - 1) * width
    y = task.y
    in_place = y.is_by_rows and y.dtype is dtype and _reads_in_place(task, rows, width * item)
    pack = 0 if task.packed or in_place else packing.pack(*_packing(task))
    depth = blocks.k_block(k, tile.of_product(machine, *_LARGE).rows, item)
    if task.packed is None and in_place and m <= _STREAMED_ROWS:
        depth = min(depth, _STREAMED_DEPTH)
    most = max(blocks.column_block(min(k, depth), item) // width, 1)
    counts = threads.limit() if threads.pool() else 1
    places = math.prod(task.batch)
    parts = blocks.parts(rows.parts, panels, most, places, counts)
    # Threads that would all pack the same do it together, where there is one B.
    shares = bool(pack) and parts.rows > 1 and not any(y.batch)
    shared = k * ((panels - 1) * width + -(-last // lanes) * lanes) * item if shares else 0
    shared = -(-shared // 64) * 64
    lies, copy, by_rows = _left(task, dtype, rows.size)
    narrow = _is_narrow(task, depth, accumulate)
    apart = not (task.out.is_by_rows and (task.out.dtype is dtype or narrow))
    first = MicroKernel(
        bfloat16 if task.pairs else dtype,
        shape,
        lies,
        "packed" if pack or task.packed else "rows",
        narrow=narrow,
    )
    micro = _micros(first, rows, panels, last, apart)
    # A worker's memory: a block of B, a tile of A, sums.
    vector, kept, columns = lanes * item, min(k, depth), -(-panels // parts.columns) * width
    tallest = rows.size + 1
    steps, across = (tallest, kept) if by_rows else (kept, tallest)
    sizes = (
        kept * columns * item if pack and not shares else 0,
        steps * (-(-across * item // vector) * vector + gemm.GAP) if copy else 0,
        -(-rows.parts // parts.rows) * tallest * columns * item if apart else 0,
    )
    _, tile_at, sums_at, worker = itertools.accumulate((-(-s // 64) * 64 for s in sizes), initial=0)
    words = dict.fromkeys(gemm.WORDS, 0) | {
        "worker bytes": worker, "tile at": tile_at, "sums at": sums_at,
        "m": m, "k": k, "itemsize": item, "out itemsize": 2 if narrow else item,
        "vector bytes": vector,
        "x row": task.x.down, "x k": task.x.along, "y k": task.y.down, "y column": task.y.along,
        "out row": task.out.down, "out column": task.out.along,
        "row parts": parts.rows, "tiles": rows.parts, "tile rows": rows.size,
        "longer tiles": rows.longer,
        "column parts": parts.columns, "panels": panels, "panel columns": width,
        "last columns": last, "last padded": -(-last // lanes) * lanes, "k block": depth,
        "pack": 0 if shares else pack, "pack shared": pack if shares else 0,
        "shared bytes": shared, "copy": copy,
        "unpack": packing.unpack(task.out.dtype) if apart else 0,
        "epilogue": epilogue.address if epilogue else 0,
        "y packed": shares or task.packed is not None, "copy by rows": by_rows,
        "ahead": m * k * item > caches.level(1), "accumulate": accumulate,
        "batch axes": len(task.batch),
    } | micro  # fmt: skip
    arguments = [words[name] for name in gemm.WORDS[2:]]
    for axis, size in enumerate(task.batch):
        arguments += [size, *(each.batch[axis] for each in (task.x, task.y, task.out))]
    items = places * parts.rows * parts.columns if m and n else 0
    work = 2.0 * places * m * n * max(k, 1) / SPEED
    before = (gemm.packing_address(), panels * -(-k // depth)) if shares else None
    given = arguments, gemm.CHANGING, items, work, worker, epilogue, before, shared
    runner = Runner(gemm.address(), *given)
    how = [
        "packed" if task.packed else "pack together" if shares else "pack" if pack else "",
        "copy" if copy else "",
    ]
    how += [f"{shape.rows}x{width}", f"{parts.rows}x{parts.columns}", f"k {depth}"]
    how += ["pairs"] if task.pairs else []
    return runner, "gemm " + " ".join(filter(None, how))


def _micros(like: MicroKernel, rows: Cut, panels: int, last: int, apart: bool) -> dict[str, int]:
    """The micro-kernels of all tiles: longer and other ones, whole panels and the last one."""
    lanes = target.host().lanes(like.dtype.itemsize)
    vectors = -(-last // lanes)
    masked = last % lanes != 0 and not (apart and like.b == "packed")
    found = {}
    heights = {"longer": rows.size + 1 if rows.longer else 0, "other": rows.size}
    for name, height in heights.items():
        if height:
            whole = like._replace(tile=Tile(height, like.tile.vectors))
            end = like._replace(tile=Tile(height, vectors), masked=masked)
            if panels > 1:
                found[f"micro {name} whole"] = library.address(whole)
            found[f"micro {name} last"] = library.address(end)
    return found


def _is_narrow(task: Task, depth: int, accumulate: bool) -> bool:
    """Whether micro-kernels write a result of bfloat16: all of a sum is one call of theirs."""
    once = task.k <= depth and not accumulate and not amx.is_usable(target.host())
    return task.pairs and task.out.dtype is bfloat16 and task.out.is_by_rows and once


def _reads_in_place(task: Task, rows: Cut, width: int) -> bool:
    """Whether B is read where it is: where it is read once, or as dense as packed, or lies in cache
    for the few rows that there are."""
    if rows.parts <= 1 or task.y.down <= width:
        return True
    return task.m * task.k * task.y.down <= _FEW_ROWS * caches.level(2)


def _left(task: Task, dtype: DType, rows: int) -> tuple[str, int, bool]:
    """How the tile of A lies that a micro-kernel gets; the function that copies it, 0 where it is
    read in place, as is best nearly always; whether it copies row by row."""
    x = task.x
    if x.is_by_rows:
        conflict = rows >= _MANY_ROWS and task.k > 16 and x.down % _CONFLICT == 0
        copies = conflict or x.dtype is not dtype
        return "rows", packing.pack("rows", x.dtype) if copies else 0, True
    if _mixes(task, x):
        return "columns", packing.pack("pairs", x.dtype), False
    if x.transposed.is_by_rows:
        copies = x.dtype is not dtype
        return "columns", packing.pack("rows", x.dtype) if copies else 0, False
    return "columns", packing.pack("strided", x.dtype), False


def _paired(task: Task) -> Task:
    """The same product of pairs of bfloat16, where the processor has an instruction for them, and
    both matrices lie so that pairs can be made quickly."""
    x, y = task.x, task.y
    packed = task.packed is not None and task.packed.dtype is bfloat16
    if not packed and not _makes_pairs(x, y.dtype, task.k):
        return task
    if not packed and y.transposed.is_by_rows:
        y = y._replace(dtype=float32, down=4)
    elif not packed and y.is_by_rows:
        y = y._replace(down=2 * y.down)
    elif not packed:
        return task
    if x.is_by_rows:
        x = x._replace(dtype=float32, along=4)
    else:
        x = x._replace(along=2 * x.along)
    return task._replace(k=task.k // 2, x=x, y=y, pairs=True)


def _makes_pairs(x: Matrix, other: DType, k: int) -> bool:
    """Whether ``x`` times a matrix of dtype ``other`` can be of pairs."""
    fits = {x.dtype, other} == {bfloat16} and k % 2 == 0 and target.host().has_bfloat_products
    return fits and (x.is_by_rows or x.transposed.is_by_rows)


def _packing(task: Task) -> tuple[str, DType]:
    """Which function packs the second factor."""
    y = task.y
    if _mixes(task, y):
        return "pairs", y.dtype
    return packing.kind_of(y.down, y.along, y.dtype), y.dtype


def _mixes(task: Task, matrix: Matrix) -> bool:
    """Whether two rows of a matrix become one of pairs."""
    return task.pairs and matrix.dtype is bfloat16


def _is_better_transposed(task: Task) -> bool:
    """Whether rows and columns should change places: a result whose columns are contiguous."""
    out = task.out
    narrow = task.n == 1 < task.m and not _is_dots(task)
    turned = out.transposed.is_by_rows and (narrow or not out.is_by_rows)
    return turned or (_has_long_columns(task) and not _is_dots(task))


def _has_long_columns(task: Task) -> bool:
    """Whether y has long columns, for few rows of x: then packing y takes longer than to read it
    as rows of the first factor, and to put the sums of the others in their places at the end."""
    lies = task.y.transposed.is_by_rows and not task.y.is_by_rows
    return lies and task.m <= _ROWS_OF_LONG <= task.n and task.k >= _LONG


# ---- problems ------------------------------------------------------------------------------------


def _task(x: Layout, y: Placement, out: Layout) -> tuple[Task, Placement]:
    """The product, and the layout of its second factor."""
    dtype = packing.computed(out.dtype)
    if dtype not in (float32, float64) or {
        packing.computed(x.dtype),
        packing.computed(y.dtype),
    } != {dtype}:
        raise UnsupportedError(f"a product of {x.dtype} and {y.dtype} as {out.dtype}")
    (*places, m, n), k = out.shape, x.shape[-1]
    if x.shape[-2] != m or y.shape[-2:] != (k, n):
        raise UnsupportedError(f"no product of {x.shape} and {y.shape} has shape {out.shape}")
    packed = None
    if isinstance(y, Packed) or y.strides is None:
        pairs = y.dtype is bfloat16 and _makes_pairs(_matrix(x, places), y.dtype, k)
        if pairs or y.dtype is dtype:
            packed = packed_layout(y.dtype, y.shape)
        if isinstance(y, Packed) and y != packed:
            raise UnsupportedError(f"{y!r} was packed for something else")
    if packed is not None:
        y = packed
        inner = row_major(
            dtype, (*y.shape[:-2], y.nbytes // max(math.prod(y.shape[:-2]), 1) // dtype.itemsize, 1)
        )
        right = _matrix(inner, places)._replace(down=0, along=0)
    else:
        y = _by_strides(y)
        right = _matrix(y, places)
    left, goal = _matrix(x, places), _matrix(out, places)
    # Axes of length 1 lie as is best.
    if k == 1:
        left = left._replace(along=left.dtype.itemsize)
    if n == 1:
        goal = goal._replace(along=goal.dtype.itemsize)
    task = Task(m, k, n, tuple(places), left, right, goal, packed)
    return _merged(task), y


def _matrix(given: Layout, places: Sequence[int]) -> Matrix:
    item = given.dtype.itemsize
    assert given.strides is not None
    *batch, down, along = (stride * item for stride in given.strides)
    sizes = given.shape[:-2]
    batch = [0 if size == 1 else stride for size, stride in zip(sizes, batch, strict=True)]
    if len(sizes) != len(places) or any(
        s not in (1, p) for s, p in zip(sizes, places, strict=True)
    ):
        raise UnsupportedError(f"{given} for a batch of {tuple(places)}")
    return Matrix(given.dtype, down, along, tuple(batch))


def _merged(task: Task) -> Task:
    """With as few axes of the batch as possible, and as many rows."""
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
    if sizes and moves[-1] == (m * task.x.down, 0, m * task.out.down):
        m *= sizes.pop()
        moves.pop()
    x, y, out = (
        each._replace(batch=tuple(step[i] for step in moves))
        for i, each in enumerate((task.x, task.y, task.out))
    )
    return task._replace(m=m, batch=tuple(sizes), x=x, y=y, out=out)


def _by_strides(given: Placement) -> Layout:
    if not isinstance(given, Layout):
        raise UnsupportedError(f"{given!r} is no factor of a product")
    return row_major(given.dtype, given.shape) if given.strides is None else given
