"""Factorisations of matrices, by numpy.linalg (LAPACK)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_tensor import capability_rules as rules
from fl_tensor.backends.numpy import memory
from fl_tensor.backends.numpy.adapter import NumpyAdapter as Value
from fl_tensor.errors import LinAlgError
from fl_tensor.rules import Spec


def _value(array: Any, spec: Spec) -> Value:
    return Value(memory.owned(np.asarray(array)), spec.dtype)


def _values(arrays: tuple[Any, ...], specs: tuple[Spec, ...]) -> tuple[Value, ...]:
    return tuple(_value(a, s) for a, s in zip(arrays, specs, strict=True))


def _call(op: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with np.errstate(all="ignore"):
        try:
            return function(*arguments, **options)
        except np.linalg.LinAlgError as error:
            shapes = " and ".join(str(a.shape) for a in arguments)
            raise LinAlgError(f"[{op}] matrices {shapes}: {error}") from None


class Linalg:
    """The capability ``linalg``: mixed into the backend."""

    def cholesky(self, x: Value, upper: bool = False) -> Value:
        spec = rules.cholesky(x, upper)
        return _value(_call("cholesky", np.linalg.cholesky, x.array, upper=upper), spec)

    def qr(self, x: Value, mode: str = "reduced") -> tuple[Value, ...]:
        specs = rules.qr(x, mode)
        return _values(_call("qr", np.linalg.qr, x.array, mode=mode), specs)

    def svd(self, x: Value, full_matrices: bool = True) -> tuple[Value, ...]:
        specs = rules.svd(x, full_matrices)
        return _values(_call("svd", np.linalg.svd, x.array, full_matrices=full_matrices), specs)

    def svdvals(self, x: Value) -> Value:
        spec = rules.svd(x)[1]
        return _value(_call("svdvals", np.linalg.svd, x.array, compute_uv=False), spec)

    def eigh(self, x: Value) -> tuple[Value, ...]:
        specs = rules.eigh(x)
        return _values(_call("eigh", np.linalg.eigh, x.array), specs)

    def eigvalsh(self, x: Value) -> Value:
        spec = rules.eigh(x)[0]
        return _value(_call("eigvalsh", np.linalg.eigvalsh, x.array), spec)

    def eig(self, x: Value) -> tuple[Value, ...]:
        specs = rules.eig(x)
        # Where all eigenvalues are real NumPy gives real results.
        found = _call("eig", np.linalg.eig, x.array)
        return _values(
            tuple(a.astype(s.dtype.name, copy=False) for a, s in zip(found, specs, strict=True)),
            specs,
        )

    def eigvals(self, x: Value) -> Value:
        spec = rules.eig(x)[0]
        found = _call("eigvals", np.linalg.eigvals, x.array)
        return _value(found.astype(spec.dtype.name, copy=False), spec)

    def solve(self, x: Value, y: Value) -> Value:
        spec = rules.solve(x, y)
        return _value(_call("solve", np.linalg.solve, x.array, y.array), spec)

    def slogdet(self, x: Value) -> tuple[Value, ...]:
        specs = rules.slogdet(x)
        return _values(_call("slogdet", np.linalg.slogdet, x.array), specs)

    def inv(self, x: Value) -> Value:
        lead, n = rules.square("inv", x)
        return _value(_call("inv", np.linalg.inv, x.array), Spec((*lead, n, n), x.dtype, x.device))

    def det(self, x: Value) -> Value:
        lead, _ = rules.square("det", x)
        return _value(_call("det", np.linalg.det, x.array), Spec(lead, x.dtype, x.device))
