"""The log-mel features of Whisper."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import fl_tensor as ft
from fl_speech import dft_matrix, frames, power_spectrum
from fl_tensor.annotations import checked

RATE, FRAME, STRIDE = 16000, 400, 160


@checked
def whisper_features(samples: ft.Array, mels: int = 80, seconds: float | None = 30.0) -> Any:
    """Samples (..., n) at 16 kHz in -1..1 to features (..., frames, mels), a frame for each 10 ms.

    The samples are cut or padded with zeros to `seconds` (None: as they are). Frames of 25 ms,
    centred and reflected at both ends, a periodic Hann window, powers, mel filters of equal area on
    Slaney's scale, log10 with a floor of 1e-10; then at most 8 below the largest of the recording,
    and (x + 4) / 4. Radford et al., 2022. Floating samples of any dtype and backend. Raises
    ft.DTypeError for integers, ft.ShapeError for fewer than 201 samples.
    """
    if not samples.dtype.is_floating:
        raise ft.DTypeError(
            f"[whisper_features] samples {samples.shape} of {samples.dtype}: expected floating"
        )
    if samples.ndim < 1:
        raise ft.ShapeError("[whisper_features] samples (): expected (..., samples)")
    if mels < 1 or (seconds is not None and not 0 < seconds <= 3600):
        raise ft.ArgumentError(
            f"[whisper_features] mels {mels}, seconds {seconds}: at least 1, and from 0 to 3600"
        )
    x = samples
    if seconds is not None:
        n = int(seconds * RATE)
        x = x[..., :n]
        x = ft.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, n - x.shape[-1]),))
    if x.shape[-1] <= FRAME // 2:
        raise ft.ShapeError(
            f"[whisper_features] samples {samples.shape}: give more than {FRAME // 2}"
        )
    x = ft.pad(x, ((0, 0),) * (x.ndim - 1) + ((FRAME // 2, FRAME // 2),), mode="reflect")
    with ft.use(x.backend):
        constants = _window(), dft_matrix(FRAME, FRAME), slaney_filterbank(mels)
        window, matrix, filters = (c.astype(x.dtype).to(x.device) for c in constants)
    framed = frames(x, FRAME, STRIDE)[..., :-1, :]
    power = power_spectrum(framed * window, matrix)
    logs = ft.log(ft.maximum(ft.matmul(power, filters), 1e-10)) * (1.0 / math.log(10.0))
    largest = ft.max(logs, (-2, -1), keepdims=True)
    return (ft.maximum(logs, largest - 8.0) + 4.0) * 0.25


def _widest() -> ft.DType:
    return ft.float64 if ft.float64 in ft.current_backend().dtypes else ft.float32


def _window() -> ft.Tensor:
    turn = 2 * math.pi / FRAME
    return ft.asarray([0.5 - 0.5 * math.cos(turn * i) for i in range(FRAME)], _widest())


def slaney_filterbank(mels: int) -> ft.Tensor:
    """Triangles (201, mels) of equal area from 0 to 8000 Hz, whose corners are equally spaced on
    Slaney's scale: linear below 1000 Hz, logarithmic above."""
    return ft.asarray(_triangles(mels), dtype=_widest())


@lru_cache(8)
def _triangles(mels: int) -> list[list[float]]:
    top = _mel(RATE / 2)
    corners = [_hz(top * i / (mels + 1)) for i in range(mels + 2)]
    rows = []
    for k in range(FRAME // 2 + 1):
        hz, row = k * RATE / FRAME, []
        for left, middle, right in zip(corners, corners[1:], corners[2:], strict=False):
            rising, falling = (hz - left) / (middle - left), (right - hz) / (right - middle)
            row.append(max(0.0, min(rising, falling)) * 2.0 / (right - left))
        rows.append(row)
    return rows


def _mel(hz: float) -> float:
    return hz * 0.015 if hz < 1000.0 else 15.0 + 27.0 / math.log(6.4) * math.log(hz / 1000.0)


def _hz(mel: float) -> float:
    return mel / 0.015 if mel < 15.0 else 1000.0 * math.exp((mel - 15.0) * math.log(6.4) / 27.0)
