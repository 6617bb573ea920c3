"""Another tempo at the same pitch: WSOLA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_speech.effects.effect import (
    SoundEffect,
    happens,
    require,
    require_probability,
    require_range,
    uniform,
)
from fl_speech.samples import host_samples, like
from fl_tensor.annotations import checked

if TYPE_CHECKING:
    import numpy as np

_SEGMENT = 0.040
"""Seconds of a segment; half of it overlaps with the next one. Two periods of 50 Hz."""
_SEARCH = 0.0125
"""Seconds by which a segment may be moved either way: a period of 40 Hz in all."""
SLOWEST, FASTEST = 0.1, 10.0


@checked
def time_stretch(samples: Any, factor: float, sample_rate: int = 16000) -> Any:
    """`samples`, float32 or float64 `(channels, n)` or `(n,)`, at `factor` times the tempo and the
    same pitch: `round(n / factor)` samples, at least 1.

    WSOLA (W. Verhelst and M. Roelands, "An overlap-add technique based on waveform similarity for
    high quality time-scale modification of speech", 1993): segments of 40 ms are taken from where
    the tempo puts them, moved by up to 12.5 ms to where they are most like the natural continuation
    of the segment before (by the normalised correlation of the sum of channels), and overlapped by
    half under a Hann window. Factor 1 gives `samples` itself. Raises ArgumentError unless the
    factor is 0.1 to 10 and the rate at least 1 Hz.
    """
    if not SLOWEST <= factor <= FASTEST:
        raise ft.ArgumentError(f"[time_stretch] factor {factor}: give {SLOWEST} to {FASTEST}")
    if sample_rate < 1:
        raise ft.ArgumentError(f"[time_stretch] sample_rate {sample_rate}: give 1 Hz or more")
    x = host_samples(samples, "time_stretch")
    if x.ndim not in (1, 2):
        raise ft.ShapeError(
            f"[time_stretch] samples of shape {x.shape}: expected (channels, n) or (n,)"
        )
    if factor == 1 or not x.size:
        return samples
    rows = _stretched(x if x.ndim == 2 else x[None], factor, sample_rate)
    return like(samples, rows if x.ndim == 2 else rows[0])


def _stretched(x: np.ndarray, factor: float, sample_rate: int) -> np.ndarray:
    import numpy as np

    step = max(1, round(_SEGMENT * sample_rate / 2))  # from one segment of the result to the next
    size = 2 * step
    reach = round(_SEARCH * sample_rate)
    count = max(1, round(x.shape[1] / factor))
    segments = -(-count // step) + 1
    # The middle of the first segment is the first sample. Segment k stands at k * step * factor.
    last = round((segments - 1) * step * factor) + size + 2 * reach + step
    before = step + reach
    padded = np.zeros((len(x), max(last, x.shape[1]) + before), x.dtype)
    padded[:, before : before + x.shape[1]] = x
    mixed = padded.sum(axis=0, dtype=np.float64)
    energy = np.concatenate([[0.0], np.cumsum(mixed * mixed)])
    window = (0.5 - 0.5 * np.cos(np.pi * np.arange(size) / step)).astype(x.dtype)
    out = np.zeros((len(x), (segments + 1) * step), x.dtype)
    natural = reach
    for k in range(segments):
        first = round(k * step * factor)  # of the places that are searched, 2 * reach + 1
        place = first + _most_alike(mixed, energy, natural, first, size, 2 * reach + 1)
        out[:, k * step : k * step + size] += padded[:, place : place + size] * window
        natural = place + step
    return out[:, step : step + count]


def _most_alike(
    mixed: np.ndarray, energy: np.ndarray, natural: int, first: int, size: int, places: int
) -> int:
    """Which of `places` segments from `first` on is most like the one at `natural`: that one
    itself, if it is among them."""
    import numpy as np

    if first <= natural < first + places:
        return natural - first
    length = places + size - 1
    fit = -(-length // 128) * 128  # has small factors
    region = np.fft.rfft(mixed[first : first + length], fit)
    wanted = np.fft.rfft(mixed[natural : natural + size], fit)
    alike = np.fft.irfft(region * wanted.conj(), fit)[:places]
    power = energy[first + size : first + size + places] - energy[first : first + places]
    # In silence all are alike: the middle one is where the tempo puts it.
    floor = 1e-9 * max(float(power.max()), float(energy[natural + size] - energy[natural]))
    if floor == 0:
        return places // 2
    return int(np.argmax(alike / np.sqrt(power + floor)))


@dataclass(frozen=True)
class TimeStretch(SoundEffect):
    """Another tempo at the same pitch, by `time_stretch`.

    proba                   how often the effect is applied
    min_factor, max_factor  of the tempo, uniform: 2 is twice as fast, and half as long
    sample_rate             of the samples, in Hz
    """

    proba: float = 1.0
    min_factor: float = 0.8
    max_factor: float = 1.25
    sample_rate: int = 16000

    def __post_init__(self) -> None:
        require_probability(self)
        require_range(self, "min_factor", "max_factor", SLOWEST)
        require(self, "max_factor", self.max_factor <= FASTEST, f"at most {FASTEST:g}")
        require(self, "sample_rate", self.sample_rate >= 1, "1 Hz or more")

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        if not happens(generator, self.proba):
            return x
        factor = uniform(generator, self.min_factor, self.max_factor)
        stretched: np.ndarray = time_stretch(x, factor, self.sample_rate)
        return stretched
