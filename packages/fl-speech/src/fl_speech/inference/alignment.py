"""Forced alignment: when the words of a transcript are said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_speech.errors import RecipeError, SpeechDataError
from fl_speech.inference.emissions import emissions_of
from fl_speech.inference.word_times import Speech, fit_to_speech
from fl_speech.recogniser import Recogniser

SILENCE = "$"


class Segment(NamedTuple):
    """A word, or `$` for silence, with its times in seconds."""

    word: str
    start: float
    end: float


class Aligned(NamedTuple):
    """A recording and its segments in order."""

    utterance: Any
    segments: list[Segment]


def align(
    recogniser: Recogniser,
    utterances: Iterable[Any],
    *,
    batch_size: int = 16,
    on_error: Callable[[Exception], object] | None = None,
    speech: Speech | None = None,
) -> Iterator[Aligned]:
    """The most likely times of the words of recordings, by the alignment of the criterion.

    A word lasts from its first frame that is neither separator nor blank to the last one. With
    `speech`, such as `speech_in_file`, which says of a file whether each 10 ms has speech, words
    begin and end with that: see `fit_to_speech`. Raises
    `RecipeError` for a recogniser without alignments (a sequence-to-sequence model), and
    `SpeechDataError` for words that do not fit into the frames.
    """
    criterion = recogniser.criterion
    if criterion.decoding not in ("ctc", "asg"):
        raise RecipeError(
            f"a recogniser of criterion {recogniser.recipe.criterion} has no alignments: align "
            "with one of ctc or asg"
        )
    for each in emissions_of(recogniser, utterances, batch_size=batch_size, on_error=on_error):
        one = each.utterance
        try:
            spelled = [recogniser.targets([word]) for word in one.words]
            labels = recogniser.targets(one.words)
            needed = len(labels) + sum(a == b for a, b in zip(labels, labels[1:]))
            if needed > len(each.scores):
                raise one.error(
                    f"its {len(labels)} tokens need {needed} frames, and the encoder makes "
                    f"{len(each.scores)} of the recording",
                    "compare recording and words, or leave it out",
                )
        except SpeechDataError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        with nn.evaluating(recogniser):
            scores = ft.asarray(each.scores[None], ft.dtype(recogniser.recipe.dtype))
            path = criterion.align(scores, ft.asarray([labels], ft.int64))[0]
        seconds = each.frame_ms / 1000
        spans = _spans(recogniser, one.words, spelled, labels, path, seconds)
        if speech is not None:
            spans = fit_to_speech(spans, speech(one.path))
        yield Aligned(one, _segments(one.words, spans, len(path) * seconds))


def _spans(
    recogniser: Recogniser,
    words: tuple[str, ...],
    spelled: list[list[int]],
    labels: list[int],
    path: np.ndarray,
    seconds: float,
) -> list[tuple[float, float]]:
    """Starts and ends of words, those of their labels."""
    quiet = _quiet(recogniser)
    runs = [
        run
        for number, run in zip(labels, _runs(recogniser, labels, path), strict=True)
        if number not in quiet
    ]
    counts = [sum(number not in quiet for number in numbers) for numbers in spelled]
    if sum(counts) != len(runs) or not all(counts):
        raise RecipeError(
            f"the {len(words)} words have {sum(counts)} labels, and their transcript {len(runs)}: "
            "spell every word with a token that is no separator, and put separators between words"
        )
    found, place = [], 0
    for count in counts:
        found.append((runs[place][0] * seconds, (runs[place + count - 1][1] + 1) * seconds))
        place += count
    return found


def _segments(
    words: tuple[str, ...], spans: list[tuple[float, float]], total: float
) -> list[Segment]:
    """Words, and the silences before, between and after them."""
    found, before = [], 0.0
    for word, (start, end) in zip(words, spans, strict=True):
        if start > before:
            found.append(Segment(SILENCE, before, start))
        found.append(Segment(word, start, end))
        before = end
    if before < total:
        found.append(Segment(SILENCE, before, total))
    return found


def _quiet(recogniser: Recogniser) -> set[int]:
    recipe, tokens = recogniser.recipe, recogniser.dictionary
    names = {recipe.separator, recipe.surround}
    return {tokens.get_index(name) for name in names if name and name in tokens}


def _runs(recogniser: Recogniser, labels: list[int], path: np.ndarray) -> list[tuple[int, int]]:
    """First and last frame of each label on the path."""
    blank = len(recogniser.dictionary) - 1 if recogniser.criterion.decoding == "ctc" else -1
    runs: list[tuple[int, int]] = []
    before = blank
    for frame, number in enumerate(path.tolist()):
        if number != before and number != blank:
            runs.append((frame, frame))
        elif number != blank:
            runs[-1] = (runs[-1][0], frame)
        before = number
    if len(runs) != len(labels):
        raise RecipeError(f"an alignment of {len(labels)} labels has {len(runs)}")
    return runs


def ctm_lines(aligned: Aligned) -> list[str]:
    """Lines `id channel start duration word` in seconds, silences included."""
    return [
        f"{aligned.utterance.id} A {each.start:.3f} {each.end - each.start:.3f} {each.word}"
        for each in aligned.segments
    ]


def audacity_labels(aligned: Aligned) -> str:
    """The words as labels that Audacity imports: lines `start, end, word`, separated by tabs."""
    return "".join(
        f"{each.start:.6f}\t{each.end:.6f}\t{each.word}\n"
        for each in aligned.segments
        if each.word != SILENCE
    )
