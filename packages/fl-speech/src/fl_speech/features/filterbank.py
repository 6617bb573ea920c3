"""Triangular filters on the HTK mel scale, a linear or a logarithmic one."""

from __future__ import annotations

import math
from collections.abc import Callable

import fl_tensor as ft
from fl_tensor.annotations import checked

SCALES = ("mel", "linear", "log10")
EDGES = ("hz", "scale")


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


_Map = Callable[[float], float]
_SCALES: dict[str, tuple[_Map, _Map]] = {
    "mel": (hz_to_mel, mel_to_hz),
    "linear": (float, float),
    "log10": (lambda hz: math.log10(hz) if hz else -math.inf, lambda value: 10.0**value),
}


@checked
def mel_filterbank(
    filters: int,
    n_fft: int,
    sample_rate: int,
    low_hz: float = 0.0,
    high_hz: float | None = None,
    *,
    scale: str = "mel",
    edges: str = "hz",
) -> ft.Tensor:
    """Weights of `filters` triangles, float64 or (where a backend lacks it) float32,
    `(n_fft // 2 + 1, filters)`: `spectrum @ weights` gives the filters' outputs.

    Their corners lie equally spaced in `scale` ("mel", "linear" or "log10") between `low_hz` and
    `high_hz` (default: half the sample rate). Each rises to 1 over its predecessor's falling edge,
    linearly in frequency (`edges="hz"`, as in HTK and Flashlight) or in the scale ("scale", as in
    Kaldi). A triangle that holds no frequency stays 0. Raises `ft.ArgumentError` for more filters
    than frequencies, an unknown scale, and a logarithm from 0 Hz on.
    """
    high = sample_rate / 2 if high_hz is None else high_hz
    if n_fft < 2 or not 1 <= filters <= n_fft // 2 + 1 or not 0 <= low_hz < high <= sample_rate / 2:
        raise ft.ArgumentError(
            f"[mel_filterbank] filters {filters}, n_fft {n_fft}, {low_hz} .. {high} Hz at "
            f"{sample_rate} Hz: need n_fft >= 2, 1 <= filters <= n_fft // 2 + 1 and "
            f"0 <= low < high <= rate / 2"
        )
    if scale not in SCALES or edges not in EDGES:
        raise ft.ArgumentError(
            f"[mel_filterbank] scale {scale!r} and edges {edges!r} must be in {SCALES} and {EDGES}"
        )
    if scale == "log10" and low_hz == 0:
        raise ft.ArgumentError("[mel_filterbank] low_hz 0.0: a logarithmic scale begins above 0 Hz")
    import numpy as np

    to_scale, to_hz = _SCALES[scale]
    bottom, top = to_scale(low_hz), to_scale(high)
    step = (top - bottom) / (filters + 1)
    corners = [bottom + step * i for i in range(filters + 2)]
    bins = n_fft // 2 + 1
    if edges == "hz":  # in units of the distance between two frequencies of the transform
        corners = [to_hz(corner) * n_fft / sample_rate for corner in corners]
        places = np.arange(bins, dtype=np.float64)
    else:
        places = np.array([to_scale(k * sample_rate / n_fft) for k in range(bins)])
    left, middle, right = (np.array(corners[i : i + filters]) for i in range(3))
    rising = (places[:, None] - left) / (middle - left)
    falling = (right - places[:, None]) / (right - middle)
    return ft.asarray(np.maximum(0.0, np.minimum(rising, falling)), dtype=widest_float())


def widest_float() -> ft.DType:
    """float64 if the current backend has it, so that constants are rounded once; else float32."""
    return ft.float64 if ft.float64 in ft.current_backend().dtypes else ft.float32
