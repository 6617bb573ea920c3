"""The optional parts of the contract: complex numbers, factorisations, Fourier transforms."""

from __future__ import annotations

from typing import Any

import torch

from fl_tensor.backend import TensorBackend
from fl_tensor.errors import LinAlgError
from torch_backend.value import Value, along, unary


def _factors(name: str, *operands: torch.Tensor, **options: Any) -> Any:
    try:
        found = getattr(torch.linalg, name)(*operands, **options)
    except torch.linalg.LinAlgError as error:
        shapes = " and ".join(str(tuple(x.shape)) for x in operands)
        raise LinAlgError(f"[{name}] matrices {shapes}: {error}") from None
    return Value(found) if isinstance(found, torch.Tensor) else tuple(map(Value, found))


class Capabilities(TensorBackend):
    """`complex`, `linalg` and `fft`."""

    real, imag, conj = map(unary, (torch.real, torch.imag, torch.conj_physical))

    def cholesky(self, x: Value, upper: bool = False) -> Value:
        return _factors("cholesky", x.tensor, upper=upper)

    def qr(self, x: Value, mode: str = "reduced") -> tuple[Value, ...]:
        return _factors("qr", x.tensor, mode=mode)

    def svd(self, x: Value, full_matrices: bool = True) -> tuple[Value, ...]:
        return _factors("svd", x.tensor, full_matrices=full_matrices)

    def eigh(self, x: Value) -> tuple[Value, ...]:
        return _factors("eigh", x.tensor)

    def eig(self, x: Value) -> tuple[Value, ...]:
        return _factors("eig", x.tensor)

    def solve(self, x: Value, y: Value) -> Value:
        # A matrix beside a stack of them is one to every matrix, not a stack of vectors.
        missing = (1,) * (len(x.shape) - len(y.shape))
        return _factors("solve", x.tensor, y.tensor.reshape(missing + y.shape))

    def slogdet(self, x: Value) -> tuple[Value, ...]:
        return _factors("slogdet", x.tensor)

    fft, ifft, rfft = (
        along(lambda x, axis, f=f: f(x, dim=axis))
        for f in (torch.fft.fft, torch.fft.ifft, torch.fft.rfft)
    )

    def irfft(self, x: Value, n: int, axis: int) -> Value:
        return Value(torch.fft.irfft(x.tensor, n, axis))
