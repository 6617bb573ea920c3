"""|DFT|² of frames by the transform that suits the backend and the length."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from fl_speech.features.spectrum import dft_matrix, power_spectrum, window

MATRIX_FFT = 1024
"""Up to this length a product with a matrix takes less time than a backend's FFT."""
MAX_MATRIX_FFT = 4096
METHODS = ("auto", "fft", "matrix")


class PowerTransform:
    """`transform(frames)`: |DFT|² of windowed frames, `(..., size)` to `(..., bins)`.

    method  "fft": `ft.fft.rfft`, which needs a backend with the capability "fft"; "matrix"; or
            "auto": "fft" for lengths above 1024 where the backend has it
    bins    which of the `n_fft // 2 + 1` frequencies, a slice

    The matrix of frames with an even number of samples has half the elements: sums of two samples
    at the same distance from the middle give the real part, differences the imaginary part. A
    transform that begins in the middle has the same absolute values. The window, which is
    symmetric, is part of the matrix.
    """

    def __init__(
        self, name: str, size: int, n_fft: int, method: str = "auto", bins: slice = slice(None)
    ) -> None:
        if method not in METHODS:
            raise ft.ArgumentError(f"[features] transform {method!r} must be one of {METHODS}")
        self.name, self.size, self.n_fft, self.method, self.bins = name, size, n_fft, method, bins
        self._constants: dict[Any, tuple[ft.Tensor, ...]] = {}

    def __call__(self, x: Any) -> Any:
        if self._takes_fft(x):
            transform = ft.fft.rfft(x * self._constants_for(x, self._window)[0], self.n_fft)
            transform = transform[..., self.bins]
            real, imaginary = ft.real(transform), ft.imag(transform)
        elif self.size % 2:
            return power_spectrum(x, *self._constants_for(x, self._whole))
        else:
            half = self.size // 2
            cosines, sines = self._constants_for(x, self._halves)
            before, after = ft.flip(x[..., :half], axis=-1), x[..., half:]
            real, imaginary = ft.matmul(after + before, cosines), ft.matmul(after - before, sines)
        return real * real + imaginary * imaginary

    def takes_halves(self, x: Any) -> bool:
        """Whether the matrices of halves make the transform of frames like `x`."""
        return not self.size % 2 and not self._takes_fft(x)

    def tables(self, x: Any) -> tuple[ft.Tensor, ...]:
        """Cosines and sines for halves of frames, and the window, for frames like `x`."""
        return (*self._constants_for(x, self._halves), *self._constants_for(x, self._window))

    def windowed(self, x: Any) -> Any:
        """Frames times the window."""
        return x * self._constants_for(x, self._window)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_constants": {}}

    def _takes_fft(self, x: Any) -> bool:
        if self.method == "fft" or (
            self.method == "auto" and self.n_fft > MATRIX_FFT and "fft" in x.backend.capabilities
        ):
            return True
        if self.n_fft > MAX_MATRIX_FFT:
            raise ft.ArgumentError(
                f"[features] a transform of {self.n_fft} is no matrix product (at most "
                f"{MAX_MATRIX_FFT}): use shorter frames, or a backend with the capability 'fft'"
            )
        return False

    def _constants_for(self, x: Any, make: Any) -> tuple[ft.Tensor, ...]:
        key = (make.__name__, x.backend, x.device, x.dtype)
        if key not in self._constants:
            with ft.use(x.backend):
                self._constants[key] = tuple(c.astype(x.dtype).to(x.device) for c in make())
        return self._constants[key]

    def _window(self) -> tuple[ft.Tensor, ...]:
        return (window(self.name, self.size),)

    def _whole(self) -> tuple[ft.Tensor, ...]:
        whole = dft_matrix(self.size, self.n_fft) * self._window()[0].reshape(-1, 1)
        count = self.n_fft // 2 + 1
        return (
            ft.concatenate([whole[:, :count][:, self.bins], whole[:, count:][:, self.bins]], 1),
        )

    def _halves(self) -> tuple[ft.Tensor, ...]:
        import numpy as np

        weights = self._window()[0][self.size // 2 :].reshape(-1, 1)
        distances = 2 * np.arange(self.size // 2) + 1  # from the middle, in half samples
        turns = np.outer(distances, np.arange(self.n_fft // 2 + 1)[self.bins]) % (2 * self.n_fft)
        angles = turns * (math.pi / self.n_fft)
        return tuple(ft.asarray(f(angles), dtype=weights.dtype) * weights for f in (np.cos, np.sin))
