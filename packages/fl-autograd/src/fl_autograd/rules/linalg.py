"""Rules of the factorisations, for real and complex matrices.

An operation with several results has one rule: ``result`` says whose gradient ``g`` is, the
contributions add up. Such a rule factorises ``x`` again in place of keeping the factors: then they
are differentiable, and gradients of gradients follow. Functions that read one triangle have
gradients there alone.

M. Giles, "Collected matrix derivative results", 2008; J. Townsend, "Differentiating the singular
value decomposition", 2016; Walter & Lehmann, "Algorithmic differentiation of linear algebra
functions", 2010; I. Murray, "Differentiation of the Cholesky decomposition", 2016; Golub & Pereyra,
"The differentiation of pseudo-inverses", 1973.

Of complex matrices the formulas are those with adjoints in place of transposes, for the gradient as
users see it: ``_by_adjoints`` conjugates on the way in and out. Vectors of ``eigh`` and ``svd`` are
unique up to a phase each; gradients are those of functions that do not depend on it, as in PyTorch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fl_autograd.errors import GradError
from fl_autograd.rules.contractions import transposed
from fl_autograd.rules.table import rule
from fl_tensor import dtypes

# ---- pieces --------------------------------------------------------------------------------------


def _conj(ops: Any, x: Any) -> Any:
    return ops.conj(x) if x.dtype.kind == "c" else x


def _adjoint(ops: Any, x: Any) -> Any:
    return transposed(ops, _conj(ops, x))


def _by_adjoints(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a formula for the gradient as users see it."""

    @functools.wraps(formula)
    def conjugated(ops: Any, g: Any, *kept: Any) -> Any:
        return _conj(ops, formula(ops, _conj(ops, g), *kept))

    return conjugated


def _like(ops: Any, real: Any, x: Any) -> Any:
    return real if real.dtype is x.dtype else ops.cast(real, x.dtype)


def _columns(ops: Any, x: Any, factors: Any) -> Any:
    # Column j of x times element j of factors, which are real.
    return ops.multiply(x, ops.expand_dims(_like(ops, factors, x), len(factors.shape) - 1))


def _rows(ops: Any, factors: Any, x: Any) -> Any:
    return ops.multiply(ops.expand_dims(_like(ops, factors, x), len(factors.shape)), x)


def _half_triangle(ops: Any, x: Any) -> Any:
    # The lower triangle with half of the diagonal.
    return ops.multiply(ops.add(ops.tril(x), ops.tril(x, -1)), ops.constant(0.5, x))


def _lower_part(ops: Any, x: Any) -> Any:
    # The gradient by a Hermitian matrix of which the lower triangle is read.
    return _half_triangle(ops, ops.add(x, _adjoint(ops, x)))


def _inverse_gaps(ops: Any, x: Any) -> Any:
    # 1 / (x_j - x_i), and 0 on the diagonal.
    n = x.shape[-1]
    places = ops.arange(0, n, 1, dtypes.int64, x.device)
    diagonal = ops.equal(ops.expand_dims(places, 1), places)
    last = len(x.shape)
    gaps = ops.subtract(ops.expand_dims(x, last - 1), ops.expand_dims(x, last))
    one, zero = ops.constant(1.0, x), ops.constant(0.0, x)
    return ops.where(diagonal, zero, ops.divide(one, ops.where(diagonal, one, gaps)))


def _part(ops: Any, x: Any, start: int, stop: int) -> Any:
    # Columns start to stop.
    lead = tuple(x.shape[:-1])
    rank = len(x.shape)
    return ops.slice(x, (0,) * (rank - 1) + (start,), (*lead, stop - start), (1,) * rank)


# ---- equations -----------------------------------------------------------------------------------


def _solve(ops: Any, g: Any, needs: tuple[bool, ...], out: Any, x: Any) -> tuple[Any, Any]:
    by_y = ops.solve(transposed(ops, x), g)
    by_x = ops.negative(ops.matmul(by_y, transposed(ops, out))) if needs[0] else None
    return by_x, by_y if needs[1] else None


@_by_adjoints
def _pinv(ops: Any, g: Any, out: Any, x: Any) -> Any:
    # Three terms: as of an inverse, and through both projections, for a constant rank.
    p, turned = out, _adjoint(ops, g)
    back = _adjoint(ops, p)
    inner = ops.negative(ops.matmul(ops.matmul(back, g), back))
    left = ops.matmul(turned, ops.matmul(p, back))
    left = ops.subtract(left, ops.matmul(x, ops.matmul(p, left)))
    right = ops.matmul(ops.matmul(back, p), turned)
    right = ops.subtract(right, ops.matmul(ops.matmul(right, p), x))
    return ops.add(inner, ops.add(left, right))


def _slogdet(ops: Any, g: Any, x: Any, result: int) -> Any:
    if result == 0:
        if x.dtype.kind != "c":  # the sign is piecewise constant
            return ops.full(tuple(x.shape), 0, x.dtype, x.device)
        # That of a complex determinant turns with the imaginary part of its logarithm.
        sign, _ = ops.slogdet(x)
        g = ops.cast(ops.imag(ops.multiply(g, sign)), x.dtype)
        g = ops.multiply(g, ops.constant(1j, x))
    wide = ops.reshape(_like(ops, g, x), (*g.shape, 1, 1))
    return ops.multiply(wide, transposed(ops, ops.inv(x)))


# ---- factors -------------------------------------------------------------------------------------


@_by_adjoints
def _cholesky(ops: Any, g: Any, out: Any, upper: bool) -> Any:
    if upper:
        out, g = _adjoint(ops, out), _adjoint(ops, g)
    back = _adjoint(ops, out)
    inner = ops.matmul(back, ops.tril(g))
    half = _half_triangle(ops, inner)
    found = ops.solve(back, _adjoint(ops, ops.solve(back, half)))
    found = _lower_part(ops, found)
    return _adjoint(ops, found) if upper else found


@_by_adjoints
def _qr(ops: Any, g: Any, x: Any, mode: str, result: int) -> Any:
    m, n = x.shape[-2:]
    if mode == "complete" and m > n:
        raise GradError(
            f"[qr] x {tuple(x.shape)}, mode 'complete': the columns that complete Q are arbitrary, "
            f"they have no gradient; use mode 'reduced'"
        )
    if m >= n:
        q, r = ops.qr(x)
        return _qr_tall(ops, q, r, *((g, None) if result == 0 else (None, g)))
    # The first m columns are factorised, R continues with Q^H times the rest.
    rest = _part(ops, x, m, n)
    q, r = ops.qr(_part(ops, x, 0, m))
    if result == 0:
        first, second = _qr_tall(ops, q, r, g, None), ops.multiply(rest, ops.constant(0.0, rest))
    else:
        by_rest = _part(ops, g, m, n)
        by_q = ops.matmul(rest, _adjoint(ops, by_rest))
        first, second = _qr_tall(ops, q, r, by_q, _part(ops, g, 0, m)), ops.matmul(q, by_rest)
    return ops.concatenate([first, second], len(x.shape) - 1)


def _qr_tall(ops: Any, q: Any, r: Any, by_q: Any, by_r: Any) -> Any:
    inner = None if by_r is None else ops.matmul(r, _adjoint(ops, ops.triu(by_r)))
    if by_q is not None:
        turned = ops.negative(ops.matmul(_adjoint(ops, by_q), q))
        inner = turned if inner is None else ops.add(inner, turned)
    total = ops.matmul(q, _mirrored(ops, inner))
    total = total if by_q is None else ops.add(by_q, total)
    return _adjoint(ops, ops.solve(r, _adjoint(ops, total)))


def _mirrored(ops: Any, x: Any) -> Any:
    # The lower triangle, and the same above the diagonal, which is real.
    half = _half_triangle(ops, x)
    return ops.add(half, _adjoint(ops, half))


@_by_adjoints
def _eigh(ops: Any, g: Any, x: Any, result: int) -> Any:
    values, vectors = ops.eigh(x)
    back = _adjoint(ops, vectors)
    if result == 0:
        found = ops.matmul(_columns(ops, vectors, g), back)
    else:
        gaps = _like(ops, _inverse_gaps(ops, values), x)
        inner = ops.multiply(gaps, ops.matmul(back, g))
        found = ops.matmul(ops.matmul(vectors, inner), back)
    return _lower_part(ops, found)


@_by_adjoints
def _svd(ops: Any, g: Any, x: Any, full_matrices: bool, result: int) -> Any:
    if result != 1 and full_matrices and x.shape[-1] != x.shape[-2]:
        raise GradError(
            f"[svd] x {tuple(x.shape)}: the vectors that complete U and Vh are arbitrary, they "
            f"have no gradient; use full_matrices=False"
        )
    u, s, vh = ops.svd(x, False)
    if result == 1:
        return ops.matmul(_columns(ops, u, g), vh)
    gaps = _like(ops, _inverse_gaps(ops, ops.multiply(s, s)), x)
    inverse = ops.divide(ops.constant(1.0, s), s)
    if result == 0:
        inner = ops.matmul(_adjoint(ops, u), g)
        apart = ops.subtract(inner, _adjoint(ops, inner))
        between = _columns(ops, ops.multiply(gaps, apart), s)
        if x.dtype.kind == "c":  # the diagonal, which is imaginary: how phases of U and V turn
            diagonal = ops.tril(ops.triu(_columns(ops, apart, inverse)))
            between = ops.add(between, ops.multiply(diagonal, ops.constant(0.5, x)))
        beside = _columns(ops, ops.subtract(g, ops.matmul(u, inner)), inverse)
        return ops.matmul(ops.add(ops.matmul(u, between), beside), vh)
    inner = ops.matmul(vh, _adjoint(ops, g))
    skew = ops.multiply(gaps, ops.subtract(inner, _adjoint(ops, inner)))
    beside = ops.subtract(g, ops.matmul(_adjoint(ops, inner), vh))
    return ops.matmul(u, ops.add(ops.matmul(_rows(ops, s, skew), vh), _rows(ops, inverse, beside)))


rule("solve", joint=_solve, operands=("x", "y"))
rule("pinv", x=_pinv)
rule("slogdet", x=_slogdet)
rule("cholesky", x=_cholesky)
rule("qr", x=_qr)
rule("eigh", x=_eigh)
rule("svd", x=_svd)
