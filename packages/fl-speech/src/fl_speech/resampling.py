"""Conversion of sampling rates by a polyphase windowed-sinc filter, or by soxr."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_speech.audio import MAX_VALUES
from fl_speech.samples import host_samples, like
from fl_tensor.annotations import checked

if TYPE_CHECKING:
    import numpy as np

#: Zero crossings of the sinc on each side; the transition ends where the lower rate's band ends.
_ZEROS = 64
_STEPS = 1024
_ROLLOFF = 0.95
#: Kaiser's formula for 100 dB: 0.1102 (A - 8.7).
_BETA = 0.1102 * (100 - 8.7)
#: As many filter coefficients at most are kept as a matrix for all phases.
_LARGEST_MATRIX = 1 << 21
_FEW = 64
_CHUNK = 1 << 20


@checked
def resample(audio: Any, rate: int, new_rate: int, *, method: str = "polyphase") -> Any:
    """`audio`, `(..., samples)` of float32 or float64 at `rate` Hz, at `new_rate` Hz:
    `(..., ceil(samples * new_rate / rate))` of the same dtype. Equal rates give `audio` itself.

    `method="polyphase"`: each new sample is the sum of old ones, weighted by a sinc under a Kaiser
    window (J. O. Smith, "Digital audio resampling", 2002) with 64 zero crossings on each side. It
    passes 90 % of the lower rate's band, and stops by 100 dB what is beyond the band. Rates are
    divided by their greatest common divisor, and outside of the recording there is silence. It
    gives the same numbers wherever it runs. It is fast where few phases are left: 640 for 11,025 to
    16,000 Hz, but 16,001 for 16,000 to 16,001 Hz.
    `method="soxr"`: the library of that name at its quality "HQ" (extra `fl-speech[soxr]`).

    The result is a tensor for a tensor, a NumPy array for an array. Raises ArgumentError for rates
    below 1 Hz, another method, and results of more than `2^28` values; MissingError where soxr is
    not installed.
    """
    if method not in ("polyphase", "soxr"):
        raise ft.ArgumentError(f"[resample] method {method!r}: give 'polyphase' or 'soxr'")
    for name, value in (("rate", rate), ("new_rate", new_rate)):
        if value < 1:
            raise ft.ArgumentError(f"[resample] {name} {value}: give 1 Hz or more")
    x = host_samples(audio, "resample")
    if x.ndim == 0:
        raise ft.ShapeError("[resample] audio of shape (): expected (..., samples)")
    if rate == new_rate:
        return audio
    divisor = math.gcd(rate, new_rate)
    up, down = new_rate // divisor, rate // divisor
    count = -(-x.shape[-1] * up // down)
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if len(rows) * count > MAX_VALUES:
        raise ft.ArgumentError(
            f"[resample] {len(rows)} x {x.shape[-1]} samples from {rate} to {new_rate} Hz would be "
            f"{len(rows) * count} values: give pieces of the recording"
        )
    if method == "soxr":
        y = _by_soxr(rows, rate, new_rate, count)
    elif up * (down + 2 * _reach(up, down)) <= _LARGEST_MATRIX:
        y = _by_matrix(rows, up, down, count)
    else:
        y = _by_sample(rows, up, down, count)
    return like(audio, y.reshape(*x.shape[:-1], count))


def _reach(up: int, down: int) -> int:
    """How many old samples the filter covers on each side."""
    return math.ceil(_ZEROS * max(1.0, down / up) / _ROLLOFF)


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """The filter at `_STEPS` places for each zero crossing, from its middle on, and two zeros."""
    import numpy as np

    place = np.arange(_ZEROS * _STEPS + 1) / _STEPS
    window = np.i0(_BETA * np.sqrt(1.0 - (place / _ZEROS) ** 2)) / np.i0(_BETA)
    return np.append(np.sinc(place) * window, [0.0, 0.0])


def _weights(times: np.ndarray, up: int, down: int) -> np.ndarray:
    """The filter at `times`, in old samples: read from the table by linear interpolation, which is
    exact to 1e-7."""
    import numpy as np

    cutoff = _ROLLOFF * min(1.0, up / down)
    table = _table()
    place = np.minimum(np.abs(times) * (cutoff * _STEPS), float(len(table) - 2))
    before = place.astype(np.int64)
    low = table[before]
    weights: np.ndarray = cutoff * (low + (place - before) * (table[before + 1] - low))
    return weights


@lru_cache(maxsize=16)
def _matrix(up: int, down: int, dtype: str) -> np.ndarray:
    """`(2 * reach + down, up)`: what `up` new samples take from the old ones around them."""
    import numpy as np

    reach = _reach(up, down)
    old = np.arange(-reach, down + reach, dtype=np.float64)
    new = np.arange(up, dtype=np.float64) * down / up
    return _weights(old[:, None] - new, up, down).astype(dtype)


def _by_matrix(rows: np.ndarray, up: int, down: int, count: int) -> np.ndarray:
    """Every `down` old samples give `up` new ones, by one matrix; of few, several at a time."""
    import numpy as np

    group = -(-_FEW // up)
    up, down = up * group, down * group
    matrix = _matrix(up, down, rows.dtype.str)
    reach = _reach(up, down)
    steps = -(-count // up)
    if steps == 0:
        return np.zeros((len(rows), 0), rows.dtype)
    padded = np.zeros((len(rows), steps * down + 2 * reach), rows.dtype)
    taken = min(rows.shape[1], padded.shape[1] - reach)
    padded[:, reach : reach + taken] = rows[:, :taken]
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(matrix), axis=1)[:, ::down]
    out = np.empty((len(rows), steps, up), rows.dtype)
    chunk = max(1, _CHUNK // len(matrix))
    for row in range(len(rows)):
        for start in range(0, steps, chunk):
            part = slice(start, start + chunk)
            np.matmul(windows[row, part], matrix, out=out[row, part])
    return out.reshape(len(rows), -1)[:, :count]


def _by_sample(rows: np.ndarray, up: int, down: int, count: int) -> np.ndarray:
    """The weights of each new sample are computed: for rates without a large common divisor."""
    import numpy as np

    reach = _reach(up, down)
    padded = np.pad(rows, ((0, 0), (reach, reach + 1)))
    taps = np.arange(-reach, reach + 1)
    out = np.empty((len(rows), count), rows.dtype)
    chunk = max(1, _CHUNK // len(taps))
    for start in range(0, count, chunk):
        new = np.arange(start, min(start + chunk, count), dtype=np.int64) * down
        whole, phase = new // up, new % up
        weights = _weights(taps - (phase / up)[:, None], up, down)
        part = padded[:, whole[:, None] + (taps + reach)]
        out[:, start : start + len(new)] = np.einsum("rnt,nt->rn", part, weights)
    return out


def _by_soxr(rows: np.ndarray, rate: int, new_rate: int, count: int) -> np.ndarray:
    import numpy as np

    try:
        import soxr
    except ImportError as error:
        raise ft.MissingError(
            "[resample] soxr is not installed: install fl-speech[soxr], or use method='polyphase'"
        ) from error
    out = np.zeros((len(rows), count), rows.dtype)
    for row, target in zip(rows, out, strict=True):
        found = soxr.resample(row, rate, new_rate, quality="HQ")[:count]
        target[: len(found)] = found  # the library rounds the length
    return out
