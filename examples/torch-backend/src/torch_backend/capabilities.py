"""The optional parts of the contract: complex numbers, factorisations, Fourier transforms."""

from __future__ import annotations

from typing import Any

import torch

from fl_tensor import capability_rules as rules
from fl_tensor.backend import TensorBackend
from fl_tensor.errors import LinAlgError
from torch_backend.value import TO_TORCH, Function, Value, elementwise


def _factors(function: Function, *operands: Any, **options: Any) -> Any:
    try:
        found = function(*operands, **options)
    except torch.linalg.LinAlgError as error:
        raise LinAlgError(str(error)) from None
    return Value(found) if isinstance(found, torch.Tensor) else tuple(map(Value, found))


def _factorisation(function: Function) -> Any:
    """The options and their defaults are the same on both sides."""

    def operation(self: TensorBackend, x: Value, *options: Any, **named: Any) -> Any:
        return _factors(function, x.tensor, *options, **named)

    return operation


def _transform(name: str) -> Any:
    function, rule = getattr(torch.fft, name), getattr(rules, name)

    def operation(self: TensorBackend, x: Value, *where: Any) -> Value:
        spec = rule(x, *where)  # PyTorch takes other lengths and dtypes, but no empty stacks
        if 0 in spec.shape:
            return Value(x.tensor.new_empty(spec.shape, dtype=TO_TORCH[spec.dtype]))
        *length, axis = where
        return Value(function(x.tensor, *(length or [None]), axis))

    return operation


class Capabilities(TensorBackend):
    """`complex`, `linalg` and `fft`."""

    real, imag, conj = map(elementwise, (torch.real, torch.imag, torch.conj_physical))
    qr, svd = map(_factorisation, (torch.linalg.qr, torch.linalg.svd))
    eigh, eig = map(_factorisation, (torch.linalg.eigh, torch.linalg.eig))
    slogdet = _factorisation(torch.linalg.slogdet)
    fft, ifft, rfft, irfft = map(_transform, ("fft", "ifft", "rfft", "irfft"))

    def cholesky(self, x: Value, upper: bool = False) -> Value:
        return _factors(torch.linalg.cholesky, x.tensor, upper=upper)

    def solve(self, x: Value, y: Value) -> Value:
        # A matrix beside a stack of them is one to every matrix, not a stack of vectors.
        missing = (1,) * (len(x.shape) - len(y.shape))
        return _factors(torch.linalg.solve, x.tensor, y.tensor.reshape(missing + y.shape))
