"""Rows of gather, scatter and sorting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import along_axis, calls, listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    EDGE,
    EMPTY,
    EXACT,
    MOVED,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    OpCase,
    Operand,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.references import indexing
from fl_tensor.testing.values import numbers, relaid

ANY = "biufc"
ORDERED = "biuf"
MOVES = (PLAIN, ZERO_D, EDGE, NON_CONTIGUOUS)
NAN, INF = float("nan"), float("inf")
UNORDERED_FLOATS = (
    [3.0, NAN, 1.0, -INF, NAN, INF, 2.0, -1.0],
    [NAN, NAN],
    [INF, -INF, NAN, INF],
)


def _places(values: object, dtype: DType = dtypes.int64) -> Operand:
    return operand(values, dtype)


def _gather(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    x = numbers(dtype, rng, (3, 4))
    yield Sample(PLAIN, (x, _places([2, 0, 2, 1]), 0))
    yield Sample(PLAIN, (x, _places([[3, 1], [0, 0], [2, 3]], dtypes.int32), 1))
    yield Sample(PLAIN, (numbers(dtype, rng, (2, 3, 2)), _places([[1], [2]]), 1))
    yield Sample(ZERO_D, (x, _places(1), 1))
    yield Sample(ZERO_D, (numbers(dtype, rng, (3,)), _places(2), 0))
    yield Sample(EMPTY, (x, _places(np.zeros((0, 2))), 1))
    yield Sample(EMPTY, (numbers(dtype, rng, (0, 3)), _places([2, 2]), 1))
    yield Sample(NON_CONTIGUOUS, (relaid(x, "permuted"), _places([2, 1]), 0))
    yield Sample(NON_CONTIGUOUS, (x, relaid(_places([2, 1, 0, 3]), "reversed"), 1))
    yield Sample(NON_CONTIGUOUS, (relaid(x, "stepped"), relaid(_places([2, 1]), "stepped"), 1))


def _scatter(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def x(*shape: int) -> Operand:
        return numbers(dtype, rng, shape, "near_one")

    yield Sample(PLAIN, (x(3, 4), _places([2, 0]), x(2, 4), 0, "set"))
    yield Sample(PLAIN, (x(3, 4), _places([[3], [1]]), x(3, 2, 1), 1, "set"))
    yield Sample(ZERO_D, (x(3), _places(1), x(), 0, "set"))
    yield Sample(EMPTY, (x(3, 2), _places(np.zeros(0)), x(0, 2), 0, "set"))
    yield Sample(EMPTY, (x(0, 3), _places([1]), x(0, 1), 1, "set"))
    # of duplicates, the last in C order stays
    yield Sample(EDGE, (x(3), _places([1, 1, 0, 1]), x(4), 0, "set"))
    yield Sample(EDGE, (x(2, 3), _places([[2, 0], [2, 2]], dtypes.int32), x(2, 2, 2), 1, "set"))
    yield Sample(NON_CONTIGUOUS, (relaid(x(2, 3), "permuted"), _places([2, 0]), x(2, 2), 1, "set"))
    reversed_updates = relaid(x(2, 3), "reversed")
    yield Sample(NON_CONTIGUOUS, (x(4, 3), _places([3, 1]), reversed_updates, 0, "set"))
    yield Sample(NON_CONTIGUOUS, (x(5), relaid(_places([4, 0, 1]), "stepped"), x(3), 0, "set"))
    if dtype.kind == "b":
        return
    yield Sample(PLAIN, (x(3, 4), _places([2, 0, 2]), x(3, 4), 0, "add"))
    yield Sample(PLAIN, (x(2, 3), _places([[1, 1], [1, 0]], dtypes.int32), x(2, 2, 2), 1, "add"))
    yield Sample(ZERO_D, (x(3), _places(0), x(), 0, "add"))
    yield Sample(EMPTY, (x(3), _places(np.zeros(0)), x(0), 0, "add"))
    yield Sample(NON_CONTIGUOUS, (x(2, 3), _places([0, 0]), relaid(x(2, 2), "permuted"), 1, "add"))


def _slice_update(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def x(*shape: int) -> Operand:
        return numbers(dtype, rng, shape)

    yield Sample(PLAIN, (x(4, 5), (1, 0), (1, 2), x(2, 3)))
    yield Sample(PLAIN, (x(6), (5,), (-2,), x(3)))
    yield Sample(PLAIN, (x(2, 3), (0, 0), (1, 1), x(2, 3)))
    yield Sample(ZERO_D, (x(), (), (), x()))
    yield Sample(EMPTY, (x(3, 4), (0, 4), (1, 1), x(2, 0)))
    yield Sample(EMPTY, (x(0, 2), (0, 0), (1, 1), x(0, 2)))
    yield Sample(NON_CONTIGUOUS, (relaid(x(3, 4), "permuted"), (0, 1), (2, 1), x(2, 3)))
    yield Sample(NON_CONTIGUOUS, (x(5), (0,), (2,), relaid(x(3), "reversed")))


def _along(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    x = numbers(dtype, rng, (3, 4))
    yield Sample(PLAIN, (x, _places([[0, 3], [1, 1], [2, 0]]), 1))
    yield Sample(PLAIN, (x, _places([[2, 0, 1, 2]], dtypes.int32), 0))
    yield Sample(EMPTY, (x, _places(np.zeros((3, 0))), 1))
    yield Sample(EMPTY, (numbers(dtype, rng, (0, 2)), _places(np.zeros((0, 3))), 1))
    yield Sample(NON_CONTIGUOUS, (relaid(x, "permuted"), _places([[3], [0], [1]]), 1))
    yield Sample(NON_CONTIGUOUS, (x, relaid(_places([[1, 2], [0, 0], [3, 1]]), "reversed"), 1))


def _ordered(k: int | None = None) -> Samples:
    """Samples of sort, argsort and top-k: distinct values, many ties, NaN; both directions."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for down in (False, True):
            for sample in along_axis("distinct")(dtype, rng):
                x, axis = sample.args
                args = (axis, down) if k is None else (min(k, x.shape[axis]), axis, down)
                yield Sample(sample.label, (x, *args))
            ties = operand(rng.integers(0, 3, 40), dtype)
            count = () if k is None else (30,)
            yield Sample(EDGE, (ties, *count, 0, down))
            if dtype.is_floating:
                for row in UNORDERED_FLOATS:
                    count = () if k is None else (len(row),)
                    yield Sample(EDGE, (operand(row, dtype), *count, 0, down))

    return listed(samples)


def _nonzero(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def x(*shape: int) -> Operand:
        return operand(rng.integers(0, 2, shape), dtype)

    yield Sample(PLAIN, (x(9),))
    yield Sample(PLAIN, (x(3, 4),))
    yield Sample(PLAIN, (x(2, 3, 2),))
    yield Sample(EMPTY, (x(0, 3),))
    yield Sample(EMPTY, (operand(np.zeros((2, 2)), dtype),))
    for layout in ("permuted", "stepped", "reversed"):
        yield Sample(NON_CONTIGUOUS, (relaid(x(3, 4), layout),))
    if dtype.is_floating:
        yield Sample(EDGE, (operand([0.0, -0.0, NAN, INF, -INF, 1e-7], dtype),))


def _embedding(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    weight = numbers(dtype, rng, (4, 3))
    yield Sample(PLAIN, (weight, _places([[1, 3], [0, 1]])))
    yield Sample(PLAIN, (weight, _places([2, 2], dtypes.int32)))
    yield Sample(ZERO_D, (weight, _places(3)))
    yield Sample(EMPTY, (weight, _places(np.zeros((0, 2)))))
    yield Sample(NON_CONTIGUOUS, (relaid(weight, "permuted"), _places([3, 0])))


def _cross_entropy(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(PLAIN, (numbers(dtype, rng, (3, 4)), _places([3, 0, 1]), 1))
    targets = _places([[0, 1], [2, 2]], dtypes.int32)
    yield Sample(PLAIN, (numbers(dtype, rng, (2, 3, 2)), targets, 1))
    yield Sample(ZERO_D, (numbers(dtype, rng, (3,)), _places(1), 0))
    yield Sample(EMPTY, (numbers(dtype, rng, (0, 3)), _places(np.zeros(0)), 1))
    laid = relaid(numbers(dtype, rng, (3, 2)), "permuted")
    yield Sample(NON_CONTIGUOUS, (laid, _places([1, 1, 0]), 1))


def _embedding_reference(weight: HostArray, indices: HostArray) -> HostArray:
    return np.take(weight, indices, 0)


SCATTERED = Tolerance(4, scale=4.0)
_LABELS = (
    (PLAIN, (3,), 10),
    (PLAIN, (2, 2), 4),
    (ZERO_D, (), 10),
    (EMPTY, (0,), 3),
    (EMPTY, (2,), 0),
)

CASES = (
    OpCase("gather", listed(_gather), np.take, ANY, tolerance=MOVED, grad=MOVES),
    OpCase(
        "scatter",
        listed(_scatter),
        indexing.scatter,
        ANY,
        tolerance=SCATTERED,
        grad=(PLAIN, ZERO_D, NON_CONTIGUOUS),
    ),
    OpCase(
        "sort", _ordered(), indexing.sort, ORDERED, tolerance=EXACT, grad=(PLAIN, NON_CONTIGUOUS)
    ),
    OpCase("argsort", _ordered(), indexing.argsort, ORDERED, result="int64"),
    OpCase(
        "topk",
        _ordered(2),
        indexing.topk,
        ORDERED,
        result=("same", "int64"),
        grad=(PLAIN, NON_CONTIGUOUS),
    ),
    OpCase("nonzero", listed(_nonzero), np.nonzero, ANY, result="int64", data_dependent=True),
    OpCase(
        "slice_update",
        listed(_slice_update),
        indexing.slice_update,
        ANY,
        tolerance=MOVED,
        grad=MOVES,
    ),
    OpCase("take_along_axis", listed(_along), np.take_along_axis, ANY, tolerance=MOVED, grad=MOVES),
    OpCase(
        "one_hot",
        calls(*_LABELS, layouts=(("stepped", (3,), 5), ("permuted", (2, 3), 5))),
        indexing.one_hot,
        "iu",
        result="float32",
    ),
    OpCase("embedding", listed(_embedding), _embedding_reference, ANY, tolerance=MOVED, grad=MOVES),
    OpCase(
        "cross_entropy", listed(_cross_entropy), indexing.cross_entropy, tolerance=MOVED, grad=MOVES
    ),
)
