"""Voice activity by level: frames that stand out from the noise around them, in files of hours."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_speech.audio import audio_info, load_audio
from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import checked

FRAMES_PER_SECOND = 100
#: Frames that are judged at a time, and how many on both sides of them tell what noise is.
_BLOCK, _AROUND = 300, 350
_LEAST_RATE = 1000
_WINDOW_S = 0.025
_BANDS, _LOW_HZ, _HIGH_HZ = 16, 60.0, 4000.0
#: The noise of a band is the quantile of its power; higher ratios to it than the cap say no more.
_NOISE, _CAP = 0.2, 10.0
_LOUD = 0.98
_SILENCE = 1e-12


@checked
def speech_by_level(
    samples: Any,
    sample_rate: int,
    *,
    threshold: float = 0.42,
    below_db: float = 32.0,
    pause_ms: float = 80.0,
    least_ms: float = 30.0,
    hangover_ms: float = 0.0,
) -> np.ndarray:
    """Whether each frame of `samples` (n,) has speech, bool (n // s,), where a frame has
    `s = frame_size(sample_rate)` samples, about 10 ms.

    threshold    of the mean over 16 mel bands of `r - 1 - log(r)`, a logarithm of the likelihood
                 ratio of speech and noise (Sohn et al., "A statistical model-based voice activity
                 detection", 1999). `r` is the ratio of power to noise, at most 10. The noise of a
                 band is the quantile 0.2 of its power in 7 to 10 seconds around a frame.
    below_db     frames this far below the loud ones around them are no speech
    pause_ms     shorter pauses belong to speech
    least_ms     shorter speech is noise
    hangover_ms  speech lasts so much longer than was found

    Raises `SpeechDataError` for more than one axis, values that are not finite, rates below
    1000 Hz, and options that are negative.
    """
    try:
        values = np.asarray(samples, np.float64)
    except (TypeError, ValueError) as error:
        raise SpeechDataError(f"samples are no array ({error})", "give numbers") from error
    if values.ndim != 1 or not np.isfinite(values).all():
        raise SpeechDataError(
            f"samples have shape {values.shape}, or values that are not finite",
            "give one channel of finite numbers",
        )
    after = _options(sample_rate, threshold, below_db, pause_ms, least_ms, hangover_ms)
    found = _judged(
        lambda start, count: values[start : start + count],
        len(values),
        sample_rate,
        threshold,
        below_db,
    )
    return _smoothed(found, *after)


@checked
def speech_in_file(
    path: str | os.PathLike[str],
    *,
    threshold: float = 0.42,
    below_db: float = 32.0,
    pause_ms: float = 80.0,
    least_ms: float = 30.0,
    hangover_ms: float = 0.0,
) -> np.ndarray:
    """`speech_by_level` of the mean of the channels of a file, which is read in blocks of
    seconds: of recordings of hours, only the result has their length.

    Raises `AudioError` for a file that cannot be read.
    """
    info = audio_info(path)
    after = _options(info.sample_rate, threshold, below_db, pause_ms, least_ms, hangover_ms)

    def read(start: int, count: int) -> np.ndarray:
        audio, _ = load_audio(path, start=start, samples=count)
        return np.asarray(ft.mean(audio, axis=0), np.float64)

    found = _judged(read, info.samples, info.sample_rate, threshold, below_db)
    return _smoothed(found, *after)


@checked
def frame_size(sample_rate: int) -> int:
    """How many samples a frame of `speech_by_level` has."""
    return round(sample_rate / FRAMES_PER_SECOND)


@checked
def smoothed(
    flags: Any, *, pause_ms: float = 80.0, least_ms: float = 30.0, hangover_ms: float = 0.0
) -> np.ndarray:
    """Frames of 10 ms with short pauses filled, then short speech removed, then speech made longer
    by `hangover_ms`. Raises `SpeechDataError` for options that are negative."""
    after = _options(_LEAST_RATE, 0.0, 0.0, pause_ms, least_ms, hangover_ms)
    return _smoothed(np.asarray(flags, bool), *after)


@checked
def speech_segments(flags: Any, sample_rate: int) -> list[tuple[float, float]]:
    """Starts and ends, in seconds, of runs of frames with speech that `speech_by_level` gave."""
    marked = np.asarray(flags, bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    seconds = (edges * frame_size(sample_rate) / sample_rate).tolist()
    return list(zip(seconds[::2], seconds[1::2], strict=True))


def _options(
    rate: int, threshold: float, below_db: float, *milliseconds: float
) -> tuple[int, int, int]:
    """Pause, least length and hangover in frames."""
    values = (threshold, below_db, *milliseconds)
    if rate < _LEAST_RATE or not all(np.isfinite(v) and v >= 0 for v in values):
        raise SpeechDataError(
            f"a rate of {rate} Hz, a threshold of {threshold}, below_db {below_db}, and "
            f"{milliseconds} ms of pause, least length and hangover",
            f"give a rate from {_LEAST_RATE} Hz on, and finite numbers that are not negative",
        )
    pause, least, hangover = (round(ms * FRAMES_PER_SECOND / 1000) for ms in milliseconds)
    return pause, least, hangover


def _judged(
    read: Callable[[int, int], np.ndarray],
    total: int,
    rate: int,
    threshold: float,
    below_db: float,
) -> np.ndarray:
    """Whether each frame stands out. `read(start, count)` gives samples."""
    size = frame_size(rate)
    count = total // size
    found = np.zeros(count, bool)
    margin = round(_WINDOW_S * rate)
    for start in range(0, count, _BLOCK):
        end = min(start + _BLOCK, count)
        low, high = max(0, start - _AROUND), min(count, end + _AROUND)
        first = max(0, low * size - margin)
        samples = read(first, min(total, high * size + margin) - first)
        score, level = _scores(samples, low * size - first, high - low, rate)
        loud = float(np.quantile(level, _LOUD))
        speech = (score > threshold) & (level > loud - below_db)
        found[start:end] = speech[start - low : end - low]
    return found


def _scores(
    samples: np.ndarray, offset: int, count: int, rate: int
) -> tuple[np.ndarray, np.ndarray]:
    """Likelihood ratio and level in decibels of `count` frames that begin at `offset`."""
    size, (window, bands) = frame_size(rate), _tables(rate)
    own = samples[offset : offset + count * size].reshape(count, size)
    level = 10 * np.log10((own * own).mean(1) + _SILENCE)
    before = (len(window) - size) // 2
    padded = np.pad(samples, (max(0, before - offset), len(window)))
    begin = offset - before + max(0, before - offset)
    views = np.lib.stride_tricks.sliding_window_view(padded[begin:], len(window))
    views = views[: (count - 1) * size + 1 : size]
    spectrum = np.fft.rfft(views * window, 2 * (bands.shape[1] - 1))
    power = (spectrum.real**2 + spectrum.imag**2) @ bands.T
    noise = np.quantile(power, _NOISE, axis=0) + _SILENCE
    ratio = np.clip(power / noise, 1.0, _CAP)
    score = (ratio - 1 - np.log(ratio)).mean(1)
    smooth = np.pad(score, 1, mode="edge")
    return (smooth[:-2] + smooth[1:-1] + smooth[2:]) / 3, level


@lru_cache(maxsize=8)
def _tables(rate: int) -> tuple[np.ndarray, np.ndarray]:
    """The window, and the bands (bands, frequencies) whose rows take means."""
    length = round(_WINDOW_S * rate)
    points = 1 << (length - 1).bit_length()
    frequencies = np.fft.rfftfreq(points, 1 / rate)
    edges = np.linspace(_mel(_LOW_HZ), _mel(min(rate / 2, _HIGH_HZ)), _BANDS + 1)
    place = _mel(frequencies)
    bands = np.stack([(place >= a) & (place < b) for a, b in zip(edges[:-1], edges[1:])])
    bands = bands[bands.any(1)].astype(np.float64)
    return np.hanning(length + 2)[1:-1], bands / bands.sum(1, keepdims=True)


def _mel(hertz: Any) -> Any:
    return 2595 * np.log10(1 + np.asarray(hertz) / 700)


def _smoothed(flags: np.ndarray, pause: int, least: int, hangover: int) -> np.ndarray:
    """Short pauses filled, then short speech removed, then speech made longer."""
    found = _without_short(flags, False, pause)
    found = _without_short(found, True, least)
    ends = np.flatnonzero(found[:-1] & ~found[1:]) + 1
    for end in ends.tolist() if hangover else ():
        found[end : end + hangover] = True
    return found


def _without_short(flags: np.ndarray, value: bool, least: int) -> np.ndarray:
    """`flags` with runs of `value` shorter than `least` turned; a pause at an end stays."""
    found = flags.copy()
    edges = np.flatnonzero(np.diff(flags)) + 1
    starts, ends = np.append(0, edges), np.append(edges, len(flags))
    for start, end in zip(starts.tolist(), ends.tolist()):
        inside = 0 < start and end < len(flags)
        if start < end and flags[start] == value and end - start < least and (inside or value):
            found[start:end] = not value
    return found
