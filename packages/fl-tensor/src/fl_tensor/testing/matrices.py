"""Matrices with known properties, and samples for linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.opcase import (
    EDGE,
    EMPTY,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    Operand,
    Sample,
    Samples,
    operand,
)
from fl_tensor.testing.references.linalg import adjoint
from fl_tensor.testing.values import Shape, numbers, relaid

SQUARE: tuple[tuple[str, Shape], ...] = (
    (PLAIN, (3, 3)),
    (PLAIN, (1, 1)),
    (PLAIN, (2, 2, 2, 2)),
    (EMPTY, (0, 0)),
    (EMPTY, (0, 2, 2)),
    (EMPTY, (2, 0, 0)),
    (LONG, (19, 19)),
    (LONG, (5, 7, 7)),
)
RECTANGULAR: tuple[tuple[str, Shape], ...] = (
    (PLAIN, (4, 2)),
    (PLAIN, (2, 4)),
    (PLAIN, (3, 3)),
    (PLAIN, (2, 3, 2)),
    (EMPTY, (0, 2)),
    (EMPTY, (3, 0)),
    (EMPTY, (0, 2, 3)),
    (LONG, (19, 11)),
    (LONG, (7, 23)),
)
LAYOUTS = ("permuted", "stepped", "reversed")
Make = Callable[[DType, np.random.Generator, Shape], Operand]


def ordinary(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    return numbers(dtype, rng, shape, "near_one")


def dominant(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    """Far from singular: the diagonal outweighs its row."""
    x = numbers(dtype, rng, shape, "unit").values
    signs = rng.choice([-1.0, 1.0], shape[-1])
    return operand(x + np.eye(shape[-1]) * signs * (2 + shape[-1]), dtype)


def tame(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    """Singular values between 1 and 2."""
    x = numbers(dtype, rng, shape).values.astype("complex128" if dtype.kind == "c" else "float64")
    if 0 not in shape:
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        x = (u * rng.uniform(1.0, 2.0, s.shape)[..., None, :]) @ vh
    return operand(x, dtype)


def hermitian(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    x = numbers(dtype, rng, shape, "near_one").values
    return operand((x + adjoint(x)) / 2, dtype)


def positive(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    x = hermitian(dtype, rng, shape).values
    return operand(x + np.eye(shape[-1]) * 2 * shape[-1], dtype)


def one_operand(
    make: Make,
    shapes: Sequence[tuple[str, Shape]],
    *variants: tuple[Any, ...],
    edges: Callable[[DType], Sequence[Any]] = lambda dtype: (),
) -> Samples:
    """``op(x, *variant)`` for every variant; under "edge" the matrices of ``edges(dtype)``."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for extra in variants or ((),):
            for label, shape in shapes:
                yield Sample(label, (make(dtype, rng, shape), *extra))
            for layout in LAYOUTS:
                for shape in ((3, 3), (2, 3, 3)):
                    x = relaid(make(dtype, rng, shape), layout)
                    yield Sample(NON_CONTIGUOUS, (x, *extra))
            for matrix in edges(dtype):
                yield Sample(EDGE, (operand(matrix, dtype), *extra))

    return listed(samples)


def first_and_rest(first: Samples, rest: Samples) -> Samples:
    """All samples of ``first``, and under "edge" the plain ones of ``rest``, of whose results some
    part is arbitrary and has no gradient."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from first(dtype, rng)
        for sample in rest(dtype, rng):
            label = EDGE if sample.label in (PLAIN, NON_CONTIGUOUS) else sample.label
            yield Sample(label, sample.args)

    return listed(samples)


def one_triangle(make: Make, *variants: tuple[bool, ...]) -> Samples:
    """Matrices of ``make`` and, under "edge", such with other numbers in the triangle that is not
    to be read: the upper one, or with a variant ``(True,)`` the lower one."""
    whole = one_operand(make, SQUARE, *variants)

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from whole(dtype, rng)
        for extra in variants or ((),):
            x = make(dtype, rng, (4, 4)).values
            other = np.tril if any(extra) else np.triu
            ends = np.ones_like(x) * 5 * (1 if any(extra) else -1)
            yield Sample(EDGE, (operand(x + other(ends, -1 if any(extra) else 1), dtype), *extra))

    return listed(samples)


def two_operands(
    rows: Sequence[tuple[str, Shape, Shape]], make: Make, laid: tuple[Shape, Shape]
) -> Samples:
    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, a, b in rows:
            yield Sample(label, (make(dtype, rng, a), ordinary(dtype, rng, b)))
        for layout in LAYOUTS:
            x, y = make(dtype, rng, laid[0]), ordinary(dtype, rng, laid[1])
            yield Sample(NON_CONTIGUOUS, (relaid(x, layout), y))
            yield Sample(NON_CONTIGUOUS, (x, relaid(y, layout)))

    return listed(samples)


def deficient(dtype: DType) -> list[Any]:
    """Of less than full rank, exactly."""
    return [[[1, 2], [2, 4]], [[1, 0, 1], [0, 1, 1]], [[0, 0], [0, 0], [0, 0]]]


def singular(dtype: DType) -> list[Any]:
    return [[[0, 0], [0, 0]], [[0, 1], [1, 0]], [[[0, 2], [0, 1]], [[2, 0], [0, -1]]]]


def special_eigenvalues(dtype: DType) -> list[Any]:
    """A rotation, a defective matrix, a multiple eigenvalue, a zero."""
    return [[[0, -1], [1, 0]], [[1, 1], [0, 1]], np.eye(3) * 2, [[1, 2], [2, 4]]]
