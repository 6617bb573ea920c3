"""Noise: recorded, or Gaussian."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_speech.audio import audio_info, load_audio
from fl_speech.effects.effect import (
    SoundEffect,
    happens,
    integer,
    require,
    require_probability,
    require_range,
    rms,
    uniform,
)
from fl_speech.errors import AudioError
from fl_tensor.files import open_regular

if TYPE_CHECKING:
    import numpy as np

_MOST_CLIPS = 1000


@dataclass(frozen=True)
class AdditiveNoise(SoundEffect):
    """Noise from recordings is added to a stretch of the samples.

    list_file_path           a text file with the path of a recording on each line; relative paths
                             begin at the folder of the list
    proba                    how often the effect is applied
    ratio                    the covered share of the samples; the stretch begins anywhere, and goes
                             on at the beginning when it comes to the end
    min_snr, max_snr         signal-to-noise ratio in dB, uniform: the noise is scaled so that it is
                             `20 log10(rms(signal) / rms(noise))`, where both are over all samples
    n_clips_min, n_clips_max how many clips are added up; each begins anywhere, and is repeated

    Clips of several channels are averaged, and added to every channel. Of a clip no more is read
    than is needed. All recordings of the list must have the rate of the first one, which is
    `sample_rate`. Raises `EffectError` for settings that cannot be, `AudioError` for a list or a
    recording that cannot be read.
    """

    list_file_path: str | os.PathLike[str]
    proba: float = 1.0
    ratio: float = 1.0
    min_snr: float = 0.0
    max_snr: float = 30.0
    n_clips_min: int = 1
    n_clips_max: int = 3
    _clips: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _rate: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_probability(self)
        require(self, "ratio", 0 <= self.ratio <= 1, "a share, 0 to 1")
        require_range(self, "min_snr", "max_snr")
        require_range(self, "n_clips_min", "n_clips_max", 0)
        require(self, "n_clips_max", self.n_clips_max <= _MOST_CLIPS, f"at most {_MOST_CLIPS}")
        clips = _listed(os.fspath(self.list_file_path))
        object.__setattr__(self, "_clips", clips)
        object.__setattr__(self, "_rate", audio_info(clips[0]).sample_rate)

    @property
    def sample_rate(self) -> int:
        return self._rate

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        import numpy as np

        if not happens(generator, self.proba):
            return x
        count = x.shape[1]
        snr = uniform(generator, self.min_snr, self.max_snr)
        clips = integer(generator, self.n_clips_min, self.n_clips_max)
        start = integer(generator, 0, count - 1)
        covered = math.floor(self.ratio * count)
        noise = np.zeros(covered, x.dtype)
        for _ in range(clips):
            path = self._clips[integer(generator, 0, len(self._clips) - 1)]
            noise += _looped(path, self._rate, uniform(generator, 0.0, 1.0), covered)
        power = math.sqrt(covered / count) * rms(noise) if covered else 0.0
        if power == 0:
            return x
        places = np.arange(start, start + covered) % count
        out = x.copy()
        out[:, places] += noise * x.dtype.type(rms(x) / (power * 10 ** (snr / 20)))
        return out


@dataclass(frozen=True)
class GaussianNoise(SoundEffect):
    """White Gaussian noise is added to all samples, independently in each channel.

    proba             how often the effect is applied
    min_snr, max_snr  signal-to-noise ratio in dB, uniform: the noise is scaled so that it is
                      `20 log10(rms(signal) / rms(noise))`
    """

    proba: float = 1.0
    min_snr: float = 0.0
    max_snr: float = 30.0

    def __post_init__(self) -> None:
        require_probability(self)
        require_range(self, "min_snr", "max_snr")

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        if not happens(generator, self.proba):
            return x
        snr = uniform(generator, self.min_snr, self.max_snr)
        noise = generator.normal(x.shape, dtype=x.dtype.name, backend="numpy").numpy()
        return x + noise * x.dtype.type(rms(x) / (rms(noise) * 10 ** (snr / 20)))


def _listed(path: str) -> tuple[str, ...]:
    """The paths of a list, none of them missing."""
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8").splitlines()
    except FileNotFoundError:
        raise AudioError(path, "no such list of recordings", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise AudioError(path, f"unreadable list of recordings ({error})", "check it") from error
    folder = os.path.dirname(path)
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        clip = os.path.join(folder, line.strip())
        if "\0" in clip or not os.path.isfile(clip):
            raise AudioError(
                path, f"line {number}: no such file {clip!r}", "correct the line, or remove it"
            )
        found.append(clip)
    if not found:
        raise AudioError(path, "a list of no recordings", "give the path of one on each line")
    return tuple(found)


def _looped(path: str, rate: int, place: float, count: int) -> np.ndarray:
    """`count` samples of a recording that begins at a share of its length, and is repeated."""
    import numpy as np

    total = audio_info(path).samples
    if total == 0:
        raise AudioError(path, "a noise of no samples", "remove it from the list")
    start = int(place * total)
    if count >= total:
        return _mono(path, rate, 0, total)[(start + np.arange(count)) % total]
    first = min(count, total - start)
    pieces = [_mono(path, rate, start, first), _mono(path, rate, 0, count - first)]
    return np.concatenate(pieces)


def _mono(path: str, rate: int, start: int, count: int) -> np.ndarray:
    audio, _ = load_audio(path, start=start, samples=count, sample_rate=rate)
    values: np.ndarray = audio.numpy().mean(axis=0)
    return values
