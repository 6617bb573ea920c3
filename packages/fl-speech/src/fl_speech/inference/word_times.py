"""Times of words that agree with voice activity.

CTC and ASG say in which order tokens come, and their tokens are short: a word seems to end before
its last sound does (Graves et al., "Connectionist temporal classification", 2006, section 2).
Voice activity says where sounds begin and end, and not which words they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import checked

#: Whether each frame of 10 ms of a file has speech: `speech_in_file`,
#: `SpeechDetector.speech_in_file`.
Speech: TypeAlias = Callable[[str | os.PathLike[str]], np.ndarray]


@checked
def fit_to_speech(
    spans: Sequence[tuple[float, float]], speech: Any, frame_s: float = 0.01
) -> list[tuple[float, float]]:
    """Starts and ends of words in seconds, moved to where speech begins and ends.

    spans   starts and ends in seconds, in order, as an alignment or a decoder gives them
    speech  whether each frame of `frame_s` seconds has speech, bool (n,): `speech_by_level`,
            `SpeechDetector.speech`

    Between two words, the longest stretch without speech separates them: the first word lasts to
    its start, and the second begins at its end. Where there is none, both meet in the middle.
    Without frames, spans stay as they are. Raises `SpeechDataError` for spans that end before they
    start, or are not in order.
    """
    flags = np.asarray(speech, bool)
    if flags.ndim != 1 or not 0 < frame_s < float("inf"):
        raise SpeechDataError(
            f"speech has shape {flags.shape}, and frames last {frame_s} s",
            "give one axis of frames, and seconds above 0",
        )
    _check(spans)
    if not len(flags):
        return list(spans)
    starts = [start / frame_s for start, _ in spans]
    ends = [end / frame_s for _, end in spans]
    before = [0.0, *ends]
    after = [*starts, float(len(flags))]
    new_starts, new_ends = [], []
    for number, (low, high) in enumerate(zip(before, after, strict=True)):
        # Silence may reach into the words, but not to their middles.
        first = low if number == 0 else (low + starts[number - 1]) / 2
        last = high if number == len(spans) else (high + ends[number]) / 2
        quiet = _longest_pause(flags, first, last)
        if quiet is None:
            middle = low if number == 0 else high if number == len(spans) else (low + high) / 2
            quiet = (middle, middle)
        if number > 0:
            new_ends.append(quiet[0])
        if number < len(spans):
            new_starts.append(quiet[1])
    return [(s * frame_s, e * frame_s) for s, e in zip(new_starts, new_ends, strict=True)]


def _longest_pause(flags: np.ndarray, low: float, high: float) -> tuple[float, float] | None:
    """The longest run without speech of frames between two places, or None."""
    first, last = max(0, round(low)), min(len(flags), round(high))
    if first >= last:
        return None
    edges = np.flatnonzero(np.diff(np.concatenate([[1], flags[first:last], [1]])))
    if not len(edges):
        return None
    begins, stops = edges[::2], edges[1::2]
    longest = int(np.argmax(stops - begins))
    return float(first + begins[longest]), float(first + stops[longest])


def _check(spans: Sequence[tuple[float, float]]) -> None:
    before = 0.0
    for start, end in spans:
        if not before <= start <= end < float("inf"):
            raise SpeechDataError(
                f"a word from {start} to {end} s, after one that ends at {before} s",
                "give starts and ends in seconds, in order",
            )
        before = end
