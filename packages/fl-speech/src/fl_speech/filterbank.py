"""Triangular filters on the HTK mel scale."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_tensor.annotations import checked


@checked
def hz_to_mel(hz: float) -> float:
    """HTK: `2595 log10(1 + hz / 700)`."""
    if not 0.0 <= hz < math.inf:
        raise ft.ArgumentError(f"[hz_to_mel] {hz}: a frequency is at least 0")
    return 2595.0 * math.log10(1.0 + hz / 700.0)


@checked
def mel_to_hz(mel: float) -> float:
    """The inverse of `hz_to_mel`."""
    if not 0.0 <= mel < math.inf:
        raise ft.ArgumentError(f"[mel_to_hz] {mel}: a pitch is at least 0")
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


@checked
def mel_filterbank(
    filters: int, n_fft: int, sample_rate: int, low_hz: float = 0.0, high_hz: float | None = None
) -> ft.Tensor:
    """Weights of `filters` triangles, float64 or (where a backend lacks it) float32,
    `(n_fft // 2 + 1, filters)`: `spectrum @ weights` gives the filters' outputs.

    Their corners lie equally spaced in mel between `low_hz` and `high_hz` (default: half the sample
    rate); each rises to 1 over its predecessor's falling edge, linearly in frequency. A triangle
    that holds no frequency stays 0. Raises `ft.ArgumentError` for more filters than frequencies.
    """
    high = sample_rate / 2 if high_hz is None else high_hz
    if n_fft < 2 or not 1 <= filters <= n_fft // 2 + 1 or not 0 <= low_hz < high <= sample_rate / 2:
        raise ft.ArgumentError(
            f"[mel_filterbank] filters {filters}, n_fft {n_fft}, {low_hz} .. {high} Hz at "
            f"{sample_rate} Hz: need n_fft >= 2, 1 <= filters <= n_fft // 2 + 1 and "
            f"0 <= low < high <= rate / 2"
        )
    bottom, top = hz_to_mel(low_hz), hz_to_mel(high)
    step = (top - bottom) / (filters + 1)
    # corners in units of the distance between two frequencies of the transform
    corners = [mel_to_hz(bottom + step * i) * n_fft / sample_rate for i in range(filters + 2)]
    rows = []
    for k in range(n_fft // 2 + 1):
        row = []
        for left, middle, right in zip(corners, corners[1:], corners[2:], strict=False):
            rising = (k - left) / (middle - left)
            falling = (right - k) / (right - middle)
            row.append(max(0.0, min(rising, falling)))
        rows.append(row)
    return ft.asarray(rows, dtype=widest_float())


def widest_float() -> ft.DType:
    """float64 if the current backend has it, so that constants are rounded once; else float32."""
    return ft.float64 if ft.float64 in ft.current_backend().dtypes else ft.float32
