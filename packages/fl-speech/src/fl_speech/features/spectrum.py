"""Spectra of audio: frames, pre-emphasis, windows, the discrete Fourier transform."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from fl_speech.features.filterbank import widest_float
from fl_tensor.annotations import checked

WINDOWS = ("hamming", "hann", "povey", "blackman", "none")


def frame_count(samples: int, size: int, stride: int) -> int:
    """How many whole frames there are: `1 + (samples - size) // stride`, 0 if not even one."""
    return 0 if samples < size else 1 + (samples - size) // stride


@checked
def frames(x: ft.Array, size: int, stride: int) -> Any:
    """Overlapping stretches: `(..., samples)` gives `(..., frames, size)`; a rest is left out."""
    if x.ndim == 0:
        raise ft.ShapeError("[frames] x (): expected samples along the last axis")
    if size < 1 or stride < 1:
        raise ft.ArgumentError(f"[frames] size {size} and stride {stride} must be at least 1")
    count = frame_count(x.shape[-1], size, stride)
    if count == 0 or x.size == 0:
        with ft.use(x.backend):
            return ft.zeros((*x.shape[:-1], count, size), dtype=x.dtype, device=x.device)
    return ft.concatenate(_pieces(x, size, stride, count), axis=-1)


def frame_sums(x: Any, size: int, stride: int) -> Any:
    """Sums of the samples of each frame, `(..., frames, 1)`; there has to be one."""
    whole, rest = divmod(size - 1, stride)
    count = frame_count(x.shape[-1], size, stride)
    rows = _rows(x, stride, count + whole)
    total = rows[..., whole:, : rest + 1].sum(axis=-1, keepdims=True)
    if whole:
        sums = rows.sum(axis=-1, keepdims=True)
        for i in range(whole):
            total = total + sums[..., i : i + count, :]
    return total


def emphasised_frames(x: Any, size: int, stride: int, coefficient: float, centred: bool) -> Any:
    """`frames(x)`, minus the mean of each if `centred`, after `pre_emphasis`. Most of it is done on
    samples, which are fewer than those of overlapping frames; there has to be a frame."""
    count = frame_count(x.shape[-1], size, stride)
    reach = (count - 1) * stride + 1

    def sample(i: int) -> Any:
        """Number `i` of each frame, `(..., frames, 1)`."""
        return x[..., i : i + reach : stride].reshape(*x.shape[:-1], count, 1)

    first = sample(0)
    steps = x[..., 1:] - x[..., :-1] * coefficient
    pieces = _pieces(steps, size - 1, stride, count)
    found = ft.concatenate([first * (1.0 - coefficient), *pieces], axis=-1)
    if centred:  # the sum of an emphasised frame is (1 - c) sum(x) + c (last - first)
        total = found.sum(axis=-1, keepdims=True)
        found = found - (total - (sample(size - 1) - first) * coefficient) * (1.0 / size)
    return found


def _pieces(x: Any, size: int, stride: int, count: int) -> list[Any]:
    """What lies side by side in frames: rows of `stride` samples, and the start of a last one."""
    whole, rest = divmod(size - 1, stride)
    rows = _rows(x, stride, count + whole)
    parts = [rows[..., i : i + count, :] for i in range(whole)]
    return [*parts, rows[..., whole:, : rest + 1]]


def _rows(x: Any, stride: int, count: int) -> Any:
    """`(..., samples)` as `(..., count, stride)`: cut, or ended by zeros."""
    missing = count * stride - x.shape[-1]
    if missing < 0:
        x = x[..., : count * stride]
    elif missing:
        x = ft.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    return x.reshape(*x.shape[:-1], count, stride)


@checked
def pre_emphasis(x: ft.Array, coefficient: float) -> Any:
    """`x[i] - c x[i - 1]` along the last axis; the first sample counts as its own predecessor."""
    before = ft.concatenate([x[..., :1], x[..., :-1]], axis=-1)
    return x - coefficient * before


@checked
def window(name: str, size: int) -> ft.Tensor:
    """A symmetric window `(size,)`: "hamming" (0.54 - 0.46 cos), "hann" (0.5 - 0.5 cos), "povey"
    (Kaldi's: hann to the power of 0.85), "blackman" (0.42 - 0.5 cos + 0.08 cos of twice), or "none"
    (ones)."""
    if name not in WINDOWS:
        raise ft.ArgumentError(f"[window] unknown window {name!r}: use one of {WINDOWS}")
    if size < 1:
        raise ft.ArgumentError(f"[window] size {size} must be at least 1")
    import numpy as np

    cosine = np.cos(2 * math.pi / max(size - 1, 1) * np.arange(size))
    values = {
        "hamming": 0.54 - 0.46 * cosine,
        "hann": 0.5 - 0.5 * cosine,
        "povey": (0.5 - 0.5 * cosine) ** 0.85,
        "blackman": 0.42 - 0.5 * cosine + 0.08 * (2 * cosine**2 - 1),
        "none": np.ones(size),
    }[name]
    return ft.asarray(values, dtype=widest_float())


@checked
def dft_matrix(size: int, n_fft: int) -> ft.Tensor:
    """`(size, 2 * bins)`, bins = `n_fft // 2 + 1`: `frame @ matrix` is the real part of the
    transform at every frequency, then the imaginary part; frames are zero-padded to `n_fft`.
    """
    if not 1 <= size <= n_fft:
        raise ft.ArgumentError(f"[dft_matrix] {size} samples do not fit a transform of {n_fft}")
    bins = n_fft // 2 + 1
    # All angles are multiples of one: a table of n_fft exact values, picked by (i * k) mod n_fft.
    angles = [2 * math.pi * i / n_fft for i in range(n_fft)]
    times = ft.arange(size, dtype=ft.int64).reshape(size, 1)
    places = ft.remainder(times * ft.arange(bins, dtype=ft.int64).reshape(1, bins), n_fft)
    dtype = widest_float()
    real = ft.gather(ft.asarray([math.cos(a) for a in angles], dtype=dtype), places)
    imaginary = ft.gather(ft.asarray([-math.sin(a) for a in angles], dtype=dtype), places)
    return ft.concatenate([real, imaginary], axis=1)


@checked
def power_spectrum(x: ft.Array, matrix: ft.Array) -> Any:
    """|DFT|² of frames `(..., size)` with the matrix of `dft_matrix`: `(..., bins)`."""
    transform = ft.matmul(x, matrix)
    bins = matrix.shape[-1] // 2
    real, imaginary = transform[..., :bins], transform[..., bins:]
    return real * real + imaginary * imaginary
