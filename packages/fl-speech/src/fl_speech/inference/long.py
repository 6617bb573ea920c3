"""Recordings of hours: pieces that are cut where it is quiet, and one transcript."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import fl_tensor as ft
from fl_speech.audio import audio_info, load_audio
from fl_speech.inference.decoding import Decoder
from fl_speech.inference.emissions import frame_ms, scores_of
from fl_speech.recogniser import Recogniser

_FRAME_S = 0.02
_QUIET_S = 0.2


class Piece(NamedTuple):
    """A piece of a recording: its first sample, and its samples (n,)."""

    start: int
    samples: ft.Tensor


class Word(NamedTuple):
    """A word with its times in seconds from the beginning of the recording."""

    word: str
    start: float
    end: float
    confidence: float


def pieces(
    path: str | os.PathLike[str], sample_rate: int, longest: float = 20.0
) -> Iterator[Piece]:
    """A recording in pieces of at most `longest` seconds, cut in the middle of the quietest fifth
    of a second of the second half of each; memory is that of one piece.

    Raises `AudioError` for a file that cannot be read or has another rate.
    """
    total = audio_info(path).samples
    most, start = max(2, round(longest * sample_rate)), 0
    while start < total:
        count = min(most, total - start)
        audio, _ = load_audio(path, start=start, samples=count, sample_rate=sample_rate)
        samples = ft.mean(audio, axis=0)
        if start + count < total:
            count = _quietest(np.asarray(samples, np.float64), sample_rate)
            samples = samples[:count]
        yield Piece(start, samples)
        start += count


def _quietest(samples: np.ndarray, rate: int) -> int:
    """The sample in the second half around which a fifth of a second is quietest."""
    frame = max(1, round(_FRAME_S * rate))
    half = len(samples) // 2
    frames = samples[half : half + (len(samples) - half) // frame * frame].reshape(-1, frame)
    power = (frames * frames).mean(1)
    width = max(1, min(len(power), round(_QUIET_S / _FRAME_S)))
    if not len(power):
        return len(samples)
    around = np.convolve(power, np.ones(width) / width, mode="valid")
    return half + int(np.argmin(around)) * frame + width * frame // 2


def transcribe_long(
    recogniser: Recogniser,
    path: str | os.PathLike[str],
    decoder: Decoder,
    longest: float = 20.0,
) -> Iterator[Word]:
    """The words of a recording of any length, as its pieces are decoded."""
    rate = recogniser.recipe.sample_rate
    seconds = frame_ms(recogniser) / 1000
    for piece in pieces(path, rate, longest):
        features = recogniser.features(piece.samples).astype(ft.dtype(recogniser.recipe.dtype))
        if not len(features):
            continue
        found = decoder(scores_of(recogniser, [features]))[0]
        offset = piece.start / rate
        if not found:
            continue
        spans = found[0].spans
        if decoder.lexicon is not None and spans:
            for span in spans:
                start, end = offset + span.start * seconds, offset + span.end * seconds
                yield Word(span.text, start, end, span.confidence)
            continue
        end = offset + len(piece.samples) / rate
        for word in decoder.words(found[0]):
            yield Word(word, offset, end, found[0].confidence)
