"""Builders of ``samples`` functions for the common forms of operation.

Every builder gives all labels that make sense, so a row says only what is peculiar to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    ZERO_D,
    Operand,
    Sample,
    Samples,
    operand,
)
from fl_tensor.testing.values import Shape, extremes, numbers, relaid

Edges = Callable[[DType], Sequence[Any]]

LAYOUTS: tuple[tuple[str, Shape], ...] = (
    ("permuted", (2, 3)),
    ("stepped", (5,)),
    ("reversed", (3, 2)),
)
UNARY_SHAPES: tuple[tuple[str, Shape], ...] = (
    (PLAIN, (2, 3)),
    (PLAIN, (7,)),
    (ZERO_D, ()),
    (EMPTY, (0,)),
    (EMPTY, (2, 0, 3)),
    (LONG, (3, 37)),
)
BINARY_SHAPES: tuple[tuple[str, Shape, Shape], ...] = (
    (PLAIN, (2, 3), (2, 3)),
    (ZERO_D, (), ()),
    (BROADCAST, (2, 1, 3), (4, 1)),
    (BROADCAST, (3,), ()),
    (BROADCAST, (), (2, 2)),
    (BROADCAST, (1,), (3, 1)),
    (EMPTY, (0,), (0,)),
    (EMPTY, (2, 0), (1,)),
    (EMPTY, (1, 3), (0, 1)),
    (LONG, (3, 37), (3, 37)),
    (LONG, (5, 1, 19), (3, 19)),
    (LONG, (41,), ()),
)


def listed(generate: Callable[[DType, np.random.Generator], Iterator[Sample]]) -> Samples:
    """The ``samples`` function of a generator."""
    return lambda dtype, rng: list(generate(dtype, rng))


def unary(
    domain: str = "any", edges: Edges | None = extremes, *args: Any, **kwargs: Any
) -> Samples:
    """``op(x, *args)`` elementwise: ``x`` in ``domain`` and, under "edge", ``edges(dtype)``."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, shape in UNARY_SHAPES:
            yield Sample(label, (numbers(dtype, rng, shape, domain), *args), kwargs)
        for layout, shape in LAYOUTS:
            x = relaid(numbers(dtype, rng, shape, domain), layout)
            yield Sample(NON_CONTIGUOUS, (x, *args), kwargs)
        if edges is not None:
            yield Sample(EDGE, (operand(list(edges(dtype)), dtype), *args), kwargs)

    return listed(samples)


def binary(
    left: str = "any", right: str | None = None, edges: Edges | None = extremes, twin: bool = False
) -> Samples:
    """``op(x, y)`` with broadcasting; under "edge" every pair of ``edges(dtype)``.

    ``twin``: some elements of ``y`` equal those of ``x``, as comparisons need.
    """

    def pair(dtype: DType, rng: np.random.Generator, a: Shape, b: Shape) -> tuple[Operand, Operand]:
        x, y = numbers(dtype, rng, a, left), numbers(dtype, rng, b, right or left)
        if twin and a == b:
            same = rng.integers(0, 2, a).astype(bool)
            y = operand(np.where(same, x.values, y.values), dtype)
        return x, y

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, a, b in BINARY_SHAPES:
            yield Sample(label, pair(dtype, rng, a, b))
        for layout, shape in LAYOUTS:
            x, y = pair(dtype, rng, shape, shape)
            yield Sample(NON_CONTIGUOUS, (relaid(x, layout), y))
            yield Sample(NON_CONTIGUOUS, (x, relaid(y, layout)))
        if edges is not None:
            pairs = list(itertools.product(edges(dtype), repeat=2))
            yield Sample(
                EDGE,
                (operand([p[0] for p in pairs], dtype), operand([p[1] for p in pairs], dtype)),
            )

    return listed(samples)


#: Calls of a reduction: label, shape, axes, keepdims.
REDUCTIONS: tuple[tuple[str, Shape, tuple[int, ...], bool], ...] = (
    (PLAIN, (2, 3), (0,), False),
    (PLAIN, (2, 3), (1,), True),
    (PLAIN, (2, 3, 2), (0, 2), False),
    (PLAIN, (2, 3, 2), (0, 1, 2), True),
    (PLAIN, (2, 3), (), False),
    (ZERO_D, (), (), False),
    (ZERO_D, (), (), True),
    (LONG, (3, 37), (1,), False),
    (LONG, (37, 3), (0,), True),
    (LONG, (3, 5, 7), (0, 2), False),
)
EMPTY_RESULT: tuple[tuple[str, Shape, tuple[int, ...], bool], ...] = (
    (EMPTY, (0, 3), (1,), False),
    (EMPTY, (2, 0, 3), (0, 2), True),
)
EMPTY_REDUCED: tuple[tuple[str, Shape, tuple[int, ...], bool], ...] = (
    (EMPTY, (0,), (0,), False),
    (EMPTY, (2, 0), (1,), True),
)


def reduction(
    domain: str = "any",
    edges: Sequence[Sequence[float]] = (),
    identity: bool = True,
    single_axis: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> Samples:
    """``op(x, axis, keepdims)``. ``edges``: rows to reduce, floating dtypes only. ``identity``: the
    operation is defined for nothing at all. ``single_axis``: ``axis`` is one int, not a tuple."""
    calls = REDUCTIONS + EMPTY_RESULT + (EMPTY_REDUCED if identity else ())

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        kwargs = dict(extra or {})
        for label, shape, axes, keepdims in calls:
            if single_axis and len(axes) != 1:
                continue
            x = numbers(dtype, rng, shape, domain)
            yield Sample(label, (x, axes[0] if single_axis else axes, keepdims), kwargs)
        for layout, shape in (("permuted", (3, 2, 2)), ("stepped", (2, 4)), ("reversed", (4, 3))):
            x = relaid(numbers(dtype, rng, shape, domain), layout)
            yield Sample(NON_CONTIGUOUS, (x, 0 if single_axis else (0,), False), kwargs)
            last = len(shape) - 1
            yield Sample(NON_CONTIGUOUS, (x, last if single_axis else (last,), True), kwargs)
        if edges and dtype.is_floating:
            for row in edges:
                yield Sample(EDGE, (operand(row, dtype), 0 if single_axis else (0,), False), kwargs)

    return listed(samples)


def along_axis(
    domain: str = "any",
    edges: Sequence[Sequence[float]] = (),
    empty_axis: bool = True,
    args: tuple[Any, ...] = (),
) -> Samples:
    """``op(x, axis, *args)`` along one axis, keeping the shape or not."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, shape, axis in (
            (PLAIN, (2, 3), 0),
            (PLAIN, (2, 3), 1),
            (PLAIN, (2, 4, 2), 1),
            (PLAIN, (1,), 0),
            (EMPTY, (0, 3), 1),
            (LONG, (3, 37), 1),
            (LONG, (37, 2), 0),
            *(((EMPTY, (0,), 0), (EMPTY, (2, 0), 1)) if empty_axis else ()),
        ):
            yield Sample(label, (numbers(dtype, rng, shape, domain), axis, *args))
        for layout, shape in (("permuted", (3, 4)), ("stepped", (2, 5)), ("reversed", (6,))):
            x = relaid(numbers(dtype, rng, shape, domain), layout)
            yield Sample(NON_CONTIGUOUS, (x, len(shape) - 1, *args))
        if edges and dtype.is_floating:
            for row in edges:
                yield Sample(EDGE, (operand(row, dtype), 0, *args))

    return listed(samples)


def calls(
    *rows: tuple[Any, ...], domain: str = "any", layouts: Sequence[tuple[Any, ...]] = ()
) -> Samples:
    """``op(x, *args)`` for rows ``(label, shape, *args)``; ``layouts`` are rows
    ``(layout, shape, *args)`` that become the "non-contiguous" samples."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, shape, *args in rows:
            yield Sample(label, (numbers(dtype, rng, shape, domain), *args))
        for layout, shape, *args in layouts:
            yield Sample(
                NON_CONTIGUOUS, (relaid(numbers(dtype, rng, shape, domain), layout), *args)
            )

    return listed(samples)


def holed(base: Samples) -> Samples:
    """``base`` with NaN: a third of long operands, and one element of others, where it does not
    stand alone."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in base(dtype, rng):
            x, *rest = sample.args
            axis = next(a for a in rest if isinstance(a, int) or not a or isinstance(a[0], int))
            reduced = np.prod([x.shape[a] for a in np.atleast_1d(np.array(axis, int))])
            if dtype.is_floating and sample.label != EDGE and x.values.size and reduced > 1:
                values = x.values.copy()
                holes = rng.integers(0, 3, x.shape) == 0 if sample.label == LONG else 0
                values.flat[np.flatnonzero(holes) if sample.label == LONG else 0] = np.nan
                x = Operand(values, dtype, x.layout)
            yield Sample(sample.label, (x, *rest), sample.kwargs)

    return listed(samples)
