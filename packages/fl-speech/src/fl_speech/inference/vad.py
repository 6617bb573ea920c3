"""Voice activity: where a recording has speech, by its level or by the blanks of CTC."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fl_speech.errors import RecipeError
from fl_speech.inference.emissions import Emissions
from fl_speech.recogniser import Recogniser


def speech_by_level(
    samples: Any,
    sample_rate: int,
    *,
    frame_ms: float = 10.0,
    share: float = 0.35,
    pause_ms: float = 100.0,
    least_ms: float = 50.0,
) -> np.ndarray:
    """Whether each frame of `samples` (n,) has speech, bool (frames,): its level in decibels is
    more than `share` of the way from the quiet tenth of the frames to the loud tenth. Pauses
    shorter than `pause_ms` belong to speech, and speech shorter than `least_ms` is noise.
    """
    values = np.asarray(samples, np.float64)
    size = max(1, round(frame_ms * sample_rate / 1000))
    count = len(values) // size
    if not count:
        return np.zeros(0, bool)
    frames = values[: count * size].reshape(count, size)
    level = 10 * np.log10((frames * frames).mean(1) + 1e-10)
    quiet, loud = np.percentile(level, [10, 90])
    found = level > quiet + share * (loud - quiet)
    found = _without_short(found, False, round(pause_ms / frame_ms))
    return _without_short(found, True, round(least_ms / frame_ms))


def _without_short(flags: np.ndarray, value: bool, least: int) -> np.ndarray:
    """`flags` with runs of `value` shorter than `least` turned; a pause at an end stays."""
    found = flags.copy()
    edges = np.flatnonzero(np.diff(flags)) + 1
    starts, ends = np.append(0, edges), np.append(edges, len(flags))
    for start, end in zip(starts.tolist(), ends.tolist()):
        inside = 0 < start and end < len(flags)
        if flags[start] == value and end - start < least and (inside or value):
            found[start:end] = not value
    return found


class Activity(NamedTuple):
    """Voice activity of one recording by CTC: the probability of the blank in each frame, the share
    of frames with speech, and the most likely token of each frame."""

    blank: np.ndarray
    share: float
    tokens: list[str]


def speech_by_blank(
    recogniser: Recogniser, emissions: Emissions, threshold: float = 0.99
) -> Activity:
    """Frames whose blank or separator has a probability below `threshold` have speech. Raises
    `RecipeError` for recognisers of other criteria than CTC."""
    if recogniser.criterion.decoding != "ctc":
        raise RecipeError(
            f"voice activity looks at the blanks of CTC, and the criterion is "
            f"{recogniser.recipe.criterion}: use a recogniser of criterion ctc"
        )
    tokens = recogniser.dictionary
    probability = np.exp(emissions.scores.astype(np.float64))
    blank = probability[:, -1]
    separator = recogniser.recipe.separator
    if separator and separator in tokens:
        blank = blank + probability[:, tokens.get_index(separator)]
    blank = np.minimum(blank, 1.0)
    best = tokens.map_indices_to_entries(emissions.scores.argmax(1).tolist())
    share = float((blank < threshold).mean()) if len(blank) else 0.0
    return Activity(blank, share, best)
