"""The optional parts of the contract: complex numbers, factorisations, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import cupyx
import numpy as np

from fl_cupy.tensors.adapter import TO_CUPY, CupyAdapter
from fl_cupy.tensors.elementwise import elementwise
from fl_cupy.tensors.placement import on_device
from fl_tensor import capability_rules as rules
from fl_tensor.backend import TensorBackend
from fl_tensor.errors import LinAlgError
from fl_tensor.rules import Spec

Value = CupyAdapter


def _factorisation(name: str, function: Callable[..., Any]) -> Any:
    """The options are the same on both sides, and so is the order of the results."""
    rule = getattr(rules, name)

    @on_device
    def operation(self: TensorBackend, x: Value, *options: Any, **named: Any) -> Any:
        specs = rule(x, *options, **named)
        if isinstance(specs, Spec):
            return _values(name, (specs,), function, x.array, *options, **named)[0]
        return _values(name, specs, function, x.array, *options, **named)

    return operation


def _values(
    name: str, specs: tuple[Spec, ...], function: Callable[..., Any], *arguments: Any, **named: Any
) -> tuple[Value, ...]:
    try:
        with cupyx.errstate(linalg="raise"):
            found = function(*arguments, **named)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"[{name}] matrices {arguments[0].shape}: {error}") from None
    arrays = tuple(found) if isinstance(found, tuple) else (found,)
    return tuple(
        Value(array.astype(TO_CUPY[spec.dtype], copy=False), spec.device)
        for array, spec in zip(arrays, specs, strict=True)
    )


def _transform(name: str) -> Any:
    function, rule = getattr(cupy.fft, name), getattr(rules, name)

    @on_device
    def operation(self: TensorBackend, x: Value, *where: Any) -> Value:
        spec = rule(x, *where)
        dtype = TO_CUPY[spec.dtype]
        if 0 in spec.shape:  # CuPy refuses empty stacks
            return Value(cupy.empty(spec.shape, dtype), x.device)
        *length, axis = where
        found = function(x.array, *(length or [None]), axis)
        return Value(found.astype(dtype, copy=False), x.device)

    return operation


def _adjoint(array: Any) -> Any:
    return cupy.conj(cupy.swapaxes(array, -1, -2))


class Capabilities(TensorBackend):
    """`complex`, `linalg` and `fft`; mixed into the backend."""

    real, imag, conj = map(elementwise, (cupy.real, cupy.imag, cupy.conj))
    qr, svd = _factorisation("qr", cupy.linalg.qr), _factorisation("svd", cupy.linalg.svd)
    eigh, eig = _factorisation("eigh", cupy.linalg.eigh), _factorisation("eig", cupy.linalg.eig)
    slogdet = _factorisation("slogdet", cupy.linalg.slogdet)
    fft, ifft, rfft, irfft = map(_transform, ("fft", "ifft", "rfft", "irfft"))

    @on_device
    def cholesky(self, x: Value, upper: bool = False) -> Value:
        specs = (rules.cholesky(x, upper),)
        # CuPy reads the lower triangle.
        array = _adjoint(x.array) if upper else x.array
        (lower,) = _values("cholesky", specs, cupy.linalg.cholesky, array)
        return Value(_adjoint(lower.array), x.device) if upper else lower

    @on_device
    def solve(self, x: Value, y: Value) -> Value:
        spec = rules.solve(x, y)
        if 0 in spec.shape:
            return Value(cupy.empty(spec.shape, x.array.dtype), x.device)
        # CuPy takes stacks of the same size.
        a = cupy.broadcast_to(x.array, (*spec.shape[:-2], *x.shape[-2:]))
        b = cupy.broadcast_to(y.array, spec.shape)
        return _values("solve", (spec,), cupy.linalg.solve, a, b)[0]
