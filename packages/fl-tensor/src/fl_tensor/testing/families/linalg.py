"""Rows of the capability "linalg".

A factorisation is rarely unique: columns change sign, eigenvalues their order. Such rows have a
``canonical`` form: the product that gives x again, the products that are the identity, the triangle
that is zero, the values where their order is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType, real_of
from fl_tensor.testing.builders import listed
from fl_tensor.testing.matrices import (
    LAYOUTS,
    RECTANGULAR,
    SQUARE,
    deficient,
    dominant,
    first_and_rest,
    hermitian,
    one_operand,
    one_triangle,
    ordinary,
    positive,
    singular,
    special_eigenvalues,
    tame,
    two_operands,
)
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    EXACT,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    OpCase,
    Reference,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.references import linalg as references
from fl_tensor.testing.references.exact import integers
from fl_tensor.testing.values import Shape, relaid

FACTORISED = ("float32", "float64", "complex64", "complex128")
#: Errors are relative to the size of the matrix, not to that of an element.
FACTORS = Tolerance(64, scale=8.0)
#: Inverses of matrices with condition numbers below about 10.
SOLUTIONS = Tolerance(128, scale=1.0)
#: Norms are sums and maxima: of what has elements.
NOT_EMPTY = (*(r for r in RECTANGULAR if r[0] != EMPTY), (EMPTY, (0, 2, 3)))
SMOOTH = (PLAIN, NON_CONTIGUOUS)

_SOLVES: tuple[tuple[str, Shape, Shape], ...] = (
    (PLAIN, (3, 3), (3, 2)),
    (PLAIN, (2, 2, 2), (2, 2, 1)),
    (PLAIN, (2, 3, 3), (2, 3, 3)),
    (BROADCAST, (2, 2), (3, 2, 2)),
    (BROADCAST, (3, 1, 2, 2), (2, 2, 1)),
    (EMPTY, (0, 0), (0, 2)),
    (EMPTY, (2, 2), (2, 0)),
    (EMPTY, (0, 2, 2), (2, 1)),
    (LONG, (19, 19), (19, 5)),
)
_NORMS = tuple(
    (keepdims, ord)
    for keepdims in (False, True)
    for ord in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))
)


def _with_tolerances() -> Samples:
    """Matrices, deficient ones among them, and such with a tolerance that decides their rank."""
    whole = one_operand(tame, RECTANGULAR, edges=deficient)

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from whole(dtype, rng)
        steps = operand([[[4, 0], [0, 1]], [[4, 0], [0, 1]]], dtype)
        for rtol in ([0.5, 0.125], 0.5):
            yield Sample(EDGE, (steps, operand(rtol, real_of(dtype))))

    return listed(samples)


def _least_squares(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for sample in _with_tolerances()(dtype, rng):
        x, *rtol = sample.args
        yield Sample(sample.label, (x, ordinary(dtype, rng, (*x.shape[:-1], 2)), *rtol))
    yield Sample(BROADCAST, (tame(dtype, rng, (3, 2)), ordinary(dtype, rng, (2, 3, 1))))


def _powers(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    negative = (-1, -2) if dtype.name in FACTORISED else ()
    make = tame if negative else ordinary
    for n in (0, 1, 2, 3, 7, *negative):
        for label, shape in (
            (PLAIN, (2, 2)),
            (PLAIN, (2, 3, 3)),
            (EMPTY, (0, 0)),
            (EMPTY, (0, 2, 2)),
        ):
            yield Sample(label, (make(dtype, rng, shape), n))
    for layout in LAYOUTS:
        yield Sample(NON_CONTIGUOUS, (relaid(make(dtype, rng, (3, 3)), layout), 3))


def _row(
    name: str, samples: Samples, reference: Reference, tolerance: Tolerance, **options: Any
) -> OpCase:
    return OpCase(
        name,
        samples,
        reference,
        "fc",
        tolerance=tolerance,
        capability="linalg",
        only=FACTORISED,
        **options,
    )


CASES = (
    _row(
        "cholesky",
        one_triangle(positive, (), (True,)),
        lambda x, upper=False: np.linalg.cholesky(x, upper=upper),
        FACTORS,
        grad=(*SMOOTH, EDGE),
    ),
    _row(
        "qr",
        first_and_rest(
            one_operand(ordinary, RECTANGULAR, edges=deficient),
            one_operand(ordinary, RECTANGULAR, ("complete",), edges=deficient),
        ),
        lambda x, mode="reduced": np.linalg.qr(x, mode),
        FACTORS,
        result=("same", "same"),
        canonical=references.qr_form,
        grad=SMOOTH,
    ),
    _row(
        "svd",
        first_and_rest(
            one_operand(ordinary, RECTANGULAR, (False,), edges=deficient),
            one_operand(ordinary, RECTANGULAR, edges=deficient),
        ),
        np.linalg.svd,
        FACTORS,
        result=("same", "real", "same"),
        canonical=references.svd_form,
        grad=SMOOTH,
    ),
    _row(
        "svdvals",
        one_operand(ordinary, RECTANGULAR, edges=deficient),
        lambda x: np.linalg.svd(x, compute_uv=False),
        FACTORS,
        result="real",
        grad=SMOOTH,
    ),
    _row(
        "eigh",
        one_triangle(hermitian),
        np.linalg.eigh,
        FACTORS,
        result=("real", "same"),
        canonical=references.eigh_form,
        grad=(*SMOOTH, EDGE),
    ),
    _row(
        "eigvalsh",
        one_triangle(hermitian),
        np.linalg.eigvalsh,
        FACTORS,
        result="real",
        grad=(*SMOOTH, EDGE),
    ),
    _row(
        "eig",
        one_operand(ordinary, SQUARE, edges=special_eigenvalues),
        references.eig,
        FACTORS,
        result=("complex", "complex"),
        canonical=references.eig_form,
    ),
    _row(
        "eigvals",
        one_operand(ordinary, SQUARE, edges=special_eigenvalues),
        references.eigvals,
        FACTORS,
        result="complex",
        canonical=references.eigvals_form,
    ),
    _row(
        "solve",
        two_operands(_SOLVES, dominant, ((3, 3), (3, 3))),
        np.linalg.solve,
        SOLUTIONS,
        grad=(*SMOOTH, BROADCAST),
    ),
    _row(
        "inv",
        one_operand(dominant, SQUARE),
        np.linalg.inv,
        SOLUTIONS,
        grad=SMOOTH,
    ),
    _row("pinv", _with_tolerances(), references.pinv, SOLUTIONS, grad=SMOOTH),
    _row("lstsq", listed(_least_squares), references.lstsq, FACTORS, grad=SMOOTH),
    _row(
        "det",
        one_operand(dominant, SQUARE, edges=singular),
        np.linalg.det,
        SOLUTIONS,
        grad=SMOOTH,
    ),
    _row(
        "slogdet",
        one_operand(dominant, SQUARE, edges=singular),
        np.linalg.slogdet,
        SOLUTIONS,
        result=("same", "real"),
        grad=SMOOTH,
    ),
    _row("matrix_rank", _with_tolerances(), references.rank, EXACT, result="int64"),
    OpCase(
        "matrix_power",
        listed(_powers),
        integers(references.matrix_power),
        "iufc",
        tolerance=Tolerance(128, scale=8.0),
        capability="linalg",
        grad=SMOOTH,
    ),
    _row(
        "matrix_norm",
        one_operand(ordinary, NOT_EMPTY, *_NORMS),
        references.matrix_norm,
        FACTORS,
        result="real",
        grad=SMOOTH,
    ),
)
