"""Features of single frames on the host: short recordings cost little more than their arithmetic.

Composed operations are kept for gradients, other devices, and layers that watch operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

import fl_tensor as ft
from fl_speech.features.params import FeatureParams
from fl_tensor.kernels import empty

BLOCK = 128
"""Frames that are computed together: they stay in the cache."""
TINY = 2.0**-126
"""Under a square root, as in composed operations."""


class HostFeatures:
    """`features(x)`: samples `(..., samples)` to frames without derivatives, `(..., frames, size)`.

    cosines, sines   tables of `PowerTransform` for halves of frames, which have the window
    window           `(frame_size,)`
    filters, dct     `(bins, filters)`, `(filters, cepstra)` with the lifter, or None
    """

    def __init__(
        self,
        params: FeatureParams,
        cosines: np.ndarray,
        sines: np.ndarray,
        window: np.ndarray,
        filters: np.ndarray | None,
        dct: np.ndarray | None,
    ) -> None:
        self._params, self._window, self._filters, self._dct = params, window, filters, dct
        self._cosines, self._sines = cosines, sines
        self._has_energy = params.energy != "none" and filters is not None
        last = next(table for table in (dct, filters, cosines) if table is not None)
        added = self._has_energy and dct is None
        self._size = last.shape[1] + added

    def __call__(self, x: ft.Tensor) -> ft.Tensor:
        p, samples = self._params, x.numpy()
        shape = (*x.shape[:-1], p.frames(x.shape[-1]), self._size)
        memory = empty(int(np.prod(shape)), x.dtype)
        found = np.frombuffer(memory, samples.dtype).reshape(-1, *shape[-2:])
        with np.errstate(all="ignore"):
            for row, into in zip(samples.reshape(-1, x.shape[-1]), found, strict=True):
                step = row.strides[0]
                framed = as_strided(
                    row, (shape[-2], p.frame_size), (p.stride * step, step), writeable=False
                )
                for i in range(0, shape[-2], BLOCK):
                    self._block(framed[i : i + BLOCK], into[i : i + BLOCK])
        return ft.asarray(found.reshape(shape), backend=x.backend, copy=False)

    def _block(self, samples: np.ndarray, into: np.ndarray) -> None:
        """The features of some frames."""
        p = self._params
        x = samples * samples.dtype.type(p.scale)
        energy = self._energy(x) if p.energy == "raw" else None
        if p.zero_mean:
            x -= x.mean(axis=-1, keepdims=True)
        if p.energy == "centred":
            energy = self._energy(x)
        if p.pre_emphasis:
            before = x[:, :-1] * x.dtype.type(p.pre_emphasis)
            x[:, 0] *= 1.0 - p.pre_emphasis
            x[:, 1:] -= before
        if p.energy == "windowed":
            energy = self._energy(x * self._window)
        power = self._power(x)
        if self._filters is None:
            np.sqrt(np.maximum(power, TINY, out=power), out=into)
            return
        if not p.power:
            np.sqrt(np.maximum(power, TINY, out=power), out=power)
        first = int(self._has_energy)
        values = into if self._dct is not None else into[:, first:]
        outputs = power @ self._filters
        np.maximum(outputs, p.mel_floor, out=outputs)
        if self._dct is None:
            np.log(outputs, out=values)
        else:
            np.matmul(np.log(outputs, out=outputs), self._dct, out=values)
        if energy is not None and first:
            into[:, 0] = energy

    def _energy(self, x: np.ndarray) -> Any:
        return np.log(np.maximum(np.einsum("ij,ij->i", x, x), self._params.energy_floor))

    def _power(self, x: np.ndarray) -> np.ndarray:
        half = x.shape[1] // 2
        before, after = x[:, half - 1 :: -1], x[:, half:]
        power: np.ndarray = (after + before) @ self._cosines
        power *= power
        imaginary = (after - before) @ self._sines
        imaginary *= imaginary
        power += imaginary
        return power
