"""References of linear algebra in NumPy, and properties that identify correct factorisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fl_tensor.testing.hostdata import HostArray


def adjoint(x: HostArray) -> HostArray:
    return np.conj(np.swapaxes(x, -1, -2))


def pinv(x: HostArray, rtol: HostArray | None = None) -> HostArray:
    if 0 in x.shape:
        return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    return np.linalg.pinv(x, max(x.shape[-2:]) * 2.0**-20 if rtol is None else rtol)


def rank(x: HostArray, rtol: HostArray | None = None) -> HostArray:
    if 0 in x.shape:
        return np.zeros(x.shape[:-2], np.int64)
    s = np.linalg.svd(x, compute_uv=False)
    limit = max(x.shape[-2:]) * 2.0**-20 if rtol is None else rtol[..., None]
    return np.asarray(np.sum(s > limit * np.max(s, -1, keepdims=True), -1))


def lstsq(x: HostArray, y: HostArray, rtol: HostArray | None = None) -> HostArray:
    return pinv(x, rtol) @ y


def eig(x: HostArray) -> tuple[HostArray, ...]:
    return tuple(np.asarray(v).astype(np.complex128) for v in np.linalg.eig(x))


def eigvals(x: HostArray) -> HostArray:
    return np.linalg.eigvals(x).astype(np.complex128)


def matrix_norm(x: HostArray, keepdims: bool = False, ord: str | float = "fro") -> HostArray:
    return np.asarray(np.linalg.norm(x, ord, (-2, -1), keepdims))


def matrix_power(x: HostArray, n: int) -> HostArray:
    if 0 in x.shape:
        return x
    if n < 0:
        x, n = np.linalg.inv(x), -n
    result = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    for _ in range(n):
        result = result @ x
    return result


# ---- canonical forms ----------------------------------------------------------------------------


def qr_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
    q, r = results
    return q @ r, adjoint(q) @ q, np.tril(r, -1)


def svd_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
    u, s, vh = results
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], adjoint(u) @ u, vh @ adjoint(vh)


def eigh_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
    values, vectors = results
    return values, (vectors * values[..., None, :]) @ adjoint(vectors), adjoint(vectors) @ vectors


def eig_form(results: Sequence[HostArray], x: HostArray) -> tuple[HostArray, ...]:
    values, vectors = results
    residual = x @ vectors - vectors * values[..., None, :]
    return *eigvals_form([values]), residual, np.linalg.norm(vectors, axis=-2)


def eigvals_form(results: Sequence[HostArray], *call: Any) -> tuple[HostArray, ...]:
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
