"""Rows of the capability "linalg".

A factorisation is rarely unique: columns change sign, eigenvalues their order. Such rows have a
``canonical`` form: the product that gives x again, the products that are the identity, the triangle
that is zero, the values where their order is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType, real_of
from fl_tensor.testing.builders import listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    BROADCAST,
    EDGE,
    EMPTY,
    EXACT,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    OpCase,
    Operand,
    Reference,
    Sample,
    Samples,
    Tolerance,
    operand,
)
from fl_tensor.testing.references.exact import integers
from fl_tensor.testing.values import Shape, numbers, relaid

FACTORISED = ("float32", "float64", "complex64", "complex128")
#: Errors are relative to the size of the matrix, not to that of an element.
FACTORS = Tolerance(64, scale=8.0)
#: Inverses of matrices with condition numbers below about 10.
SOLUTIONS = Tolerance(128, scale=1.0)

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
#: Norms are sums and maxima: of what has elements.
NOT_EMPTY = (*(r for r in RECTANGULAR if r[0] != EMPTY), (EMPTY, (0, 2, 3)))
SMOOTH = (PLAIN, NON_CONTIGUOUS)
LAYOUTS = ("permuted", "stepped", "reversed")
Make = Callable[[DType, np.random.Generator, Shape], Operand]


# ---- matrices ------------------------------------------------------------------------------------


def _any(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    return numbers(dtype, rng, shape, "near_one")


def _dominant(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    """Far from singular: the diagonal outweighs its row."""
    x = numbers(dtype, rng, shape, "unit").values
    signs = rng.choice([-1.0, 1.0], shape[-1])
    return operand(x + np.eye(shape[-1]) * signs * (2 + shape[-1]), dtype)


def _tame(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    """Singular values between 1 and 2."""
    x = numbers(dtype, rng, shape).values.astype("complex128" if dtype.kind == "c" else "float64")
    if 0 not in shape:
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        x = (u * rng.uniform(1.0, 2.0, s.shape)[..., None, :]) @ vh
    return operand(x, dtype)


def _hermitian(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    x = numbers(dtype, rng, shape, "near_one").values
    return operand((x + _adjoint(x)) / 2, dtype)


def _positive(dtype: DType, rng: np.random.Generator, shape: Shape) -> Operand:
    x = _hermitian(dtype, rng, shape).values
    return operand(x + np.eye(shape[-1]) * 2 * shape[-1], dtype)


def _adjoint(x: HostArray) -> HostArray:
    return np.conj(np.swapaxes(x, -1, -2))


def _matrices(
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


def _first_and_rest(first: Samples, rest: Samples) -> Samples:
    """All samples of ``first``, and under "edge" the plain ones of ``rest``, of whose results some
    part is arbitrary and has no gradient."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from first(dtype, rng)
        for sample in rest(dtype, rng):
            label = EDGE if sample.label in (PLAIN, NON_CONTIGUOUS) else sample.label
            yield Sample(label, sample.args)

    return listed(samples)


def _one_triangle(make: Make, *variants: tuple[bool, ...]) -> Samples:
    """Matrices of ``make`` and, under "edge", such with other numbers in the triangle that is not
    to be read: the upper one, or with a variant ``(True,)`` the lower one."""
    whole = _matrices(make, SQUARE, *variants)

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from whole(dtype, rng)
        for extra in variants or ((),):
            x = make(dtype, rng, (4, 4)).values
            other = np.tril if any(extra) else np.triu
            ends = np.ones_like(x) * 5 * (1 if any(extra) else -1)
            yield Sample(EDGE, (operand(x + other(ends, -1 if any(extra) else 1), dtype), *extra))

    return listed(samples)


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


def _pairs(
    rows: Sequence[tuple[str, Shape, Shape]], make: Make, laid: tuple[Shape, Shape]
) -> Samples:
    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        for label, a, b in rows:
            yield Sample(label, (make(dtype, rng, a), _any(dtype, rng, b)))
        for layout in LAYOUTS:
            x, y = make(dtype, rng, laid[0]), _any(dtype, rng, laid[1])
            yield Sample(NON_CONTIGUOUS, (relaid(x, layout), y))
            yield Sample(NON_CONTIGUOUS, (x, relaid(y, layout)))

    return listed(samples)


def _deficient(dtype: DType) -> list[Any]:
    """Of less than full rank, exactly."""
    return [[[1, 2], [2, 4]], [[1, 0, 1], [0, 1, 1]], [[0, 0], [0, 0], [0, 0]]]


def _singular(dtype: DType) -> list[Any]:
    return [[[0, 0], [0, 0]], [[0, 1], [1, 0]], [[[0, 2], [0, 1]], [[2, 0], [0, -1]]]]


def _special_eigenvalues(dtype: DType) -> list[Any]:
    """A rotation, a defective matrix, a multiple eigenvalue, a zero."""
    return [[[0, -1], [1, 0]], [[1, 1], [0, 1]], np.eye(3) * 2, [[1, 2], [2, 4]]]


# ---- what all right answers have in common -------------------------------------------------------


def _qr_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
    q, r = results
    return q @ r, _adjoint(q) @ q, np.tril(r, -1)


def _svd_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
    u, s, vh = results
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], _adjoint(u) @ u, vh @ _adjoint(vh)


def _eigh_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
    values, vectors = results
    return values, (vectors * values[..., None, :]) @ _adjoint(vectors), _adjoint(vectors) @ vectors


def _eig_form(results: Sequence[HostArray], x: HostArray) -> tuple[HostArray, ...]:
    values, vectors = results
    residual = x @ vectors - vectors * values[..., None, :]
    return *_eigvals_form([values]), residual, np.linalg.norm(vectors, axis=-2)


def _eigvals_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
    """The coefficients of the characteristic polynomial: they know no order, and change as little
    as x does."""
    (values,) = results
    n = values.shape[-1]
    found = np.zeros((*values.shape[:-1], n + 1), values.dtype)
    found[..., 0] = 1
    for i in range(n):
        found[..., 1 : i + 2] -= values[..., i : i + 1] * found[..., : i + 1].copy()
    # divided by the size that coefficient k of an n by n matrix has, about n^k
    return (found / np.maximum(n, 1.0) ** np.arange(n + 1),)


# ---- references ----------------------------------------------------------------------------------


def _pinv(x: HostArray, rtol: HostArray | None = None) -> HostArray:
    if 0 in x.shape:
        return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    return np.linalg.pinv(x, max(x.shape[-2:]) * 2.0**-20 if rtol is None else rtol)


def _rank(x: HostArray, rtol: HostArray | None = None) -> HostArray:
    if 0 in x.shape:
        return np.zeros(x.shape[:-2], np.int64)
    s = np.linalg.svd(x, compute_uv=False)
    limit = max(x.shape[-2:]) * 2.0**-20 if rtol is None else rtol[..., None]
    return np.asarray(np.sum(s > limit * np.max(s, -1, keepdims=True), -1))


def _lstsq(x: HostArray, y: HostArray, rtol: HostArray | None = None) -> HostArray:
    return _pinv(x, rtol) @ y


def _complex_eig(x: HostArray) -> tuple[HostArray, ...]:
    return tuple(np.asarray(v).astype(np.complex128) for v in np.linalg.eig(x))


def _complex_eigvals(x: HostArray) -> HostArray:
    return np.linalg.eigvals(x).astype(np.complex128)


def _matrix_norm(x: HostArray, keepdims: bool = False, ord: str | float = "fro") -> HostArray:
    return np.asarray(np.linalg.norm(x, ord, (-2, -1), keepdims))


_NORMS = tuple(
    (keepdims, ord)
    for keepdims in (False, True)
    for ord in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))
)


def _with_tolerances() -> Samples:
    """Matrices, deficient ones among them, and such with a tolerance that decides their rank."""
    whole = _matrices(_tame, RECTANGULAR, edges=_deficient)

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        yield from whole(dtype, rng)
        steps = operand([[[4, 0], [0, 1]], [[4, 0], [0, 1]]], dtype)
        for rtol in ([0.5, 0.125], 0.5):
            yield Sample(EDGE, (steps, operand(rtol, real_of(dtype))))

    return listed(samples)


def _least_squares(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for sample in _with_tolerances()(dtype, rng):
        x, *rtol = sample.args
        yield Sample(sample.label, (x, _any(dtype, rng, (*x.shape[:-1], 2)), *rtol))
    yield Sample(BROADCAST, (_tame(dtype, rng, (3, 2)), _any(dtype, rng, (2, 3, 1))))


def _powers(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    negative = (-1, -2) if dtype.name in FACTORISED else ()
    make = _tame if negative else _any
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


def _matrix_power(x: HostArray, n: int) -> HostArray:
    if 0 in x.shape:
        return x
    if n < 0:
        x, n = np.linalg.inv(x), -n
    result = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    for _ in range(n):
        result = result @ x
    return result


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
        _one_triangle(_positive, (), (True,)),
        lambda x, upper=False: np.linalg.cholesky(x, upper=upper),
        FACTORS,
        grad=(*SMOOTH, EDGE),
    ),
    _row(
        "qr",
        _first_and_rest(
            _matrices(_any, RECTANGULAR, edges=_deficient),
            _matrices(_any, RECTANGULAR, ("complete",), edges=_deficient),
        ),
        lambda x, mode="reduced": np.linalg.qr(x, mode),
        FACTORS,
        result=("same", "same"),
        canonical=_qr_form,
        grad=SMOOTH,
    ),
    _row(
        "svd",
        _first_and_rest(
            _matrices(_any, RECTANGULAR, (False,), edges=_deficient),
            _matrices(_any, RECTANGULAR, edges=_deficient),
        ),
        np.linalg.svd,
        FACTORS,
        result=("same", "real", "same"),
        canonical=_svd_form,
        grad=SMOOTH,
    ),
    _row(
        "svdvals",
        _matrices(_any, RECTANGULAR, edges=_deficient),
        lambda x: np.linalg.svd(x, compute_uv=False),
        FACTORS,
        result="real",
        grad=SMOOTH,
    ),
    _row(
        "eigh",
        _one_triangle(_hermitian),
        np.linalg.eigh,
        FACTORS,
        result=("real", "same"),
        canonical=_eigh_form,
        grad=(*SMOOTH, EDGE),
    ),
    _row(
        "eigvalsh",
        _one_triangle(_hermitian),
        np.linalg.eigvalsh,
        FACTORS,
        result="real",
        grad=(*SMOOTH, EDGE),
    ),
    _row(
        "eig",
        _matrices(_any, SQUARE, edges=_special_eigenvalues),
        _complex_eig,
        FACTORS,
        result=("complex", "complex"),
        canonical=_eig_form,
    ),
    _row(
        "eigvals",
        _matrices(_any, SQUARE, edges=_special_eigenvalues),
        _complex_eigvals,
        FACTORS,
        result="complex",
        canonical=_eigvals_form,
    ),
    _row(
        "solve",
        _pairs(_SOLVES, _dominant, ((3, 3), (3, 3))),
        np.linalg.solve,
        SOLUTIONS,
        grad=(*SMOOTH, BROADCAST),
    ),
    _row("inv", _matrices(_dominant, SQUARE), np.linalg.inv, SOLUTIONS, grad=SMOOTH),
    _row("pinv", _with_tolerances(), _pinv, SOLUTIONS, grad=SMOOTH),
    _row("lstsq", listed(_least_squares), _lstsq, FACTORS, grad=SMOOTH),
    _row(
        "det", _matrices(_dominant, SQUARE, edges=_singular), np.linalg.det, SOLUTIONS, grad=SMOOTH
    ),
    _row(
        "slogdet",
        _matrices(_dominant, SQUARE, edges=_singular),
        np.linalg.slogdet,
        SOLUTIONS,
        result=("same", "real"),
        grad=SMOOTH,
    ),
    _row("matrix_rank", _with_tolerances(), _rank, EXACT, result="int64"),
    OpCase(
        "matrix_power",
        listed(_powers),
        integers(_matrix_power),
        "iufc",
        tolerance=Tolerance(128, scale=8.0),
        capability="linalg",
        grad=SMOOTH,
    ),
    _row(
        "matrix_norm",
        _matrices(_any, NOT_EMPTY, *_NORMS),
        _matrix_norm,
        FACTORS,
        result="real",
        grad=SMOOTH,
    ),
)
