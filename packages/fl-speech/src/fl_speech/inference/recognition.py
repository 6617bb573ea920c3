"""Transcripts of lists of recordings: greedy, or by beam search and rescoring."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_speech.inference.decoding import Decoder
from fl_speech.inference.emissions import Emissions, emissions_of
from fl_speech.inference.rescoring import Scored, rescore
from fl_speech.inference.word_times import Speech, fit_to_speech
from fl_speech.recogniser import Recogniser
from fl_text.decoder import Span

_GROUP = 64


class Heard(NamedTuple):
    """What was heard in a recording: words, the tokens where there are any, the n-best list with
    its first entry, and the times of words in seconds by beam search."""

    utterance: Any
    words: list[str]
    tokens: list[str]
    n_best: list[Scored]
    times: list[tuple[str, float, float, float]]
    frames: int


class Clock:
    """Seconds of encoder and search, and of the audio."""

    def __init__(self) -> None:
        self.encoding = self.searching = self.audio = 0.0

    def __str__(self) -> str:
        whole = self.encoding + self.searching
        rate = whole / self.audio if self.audio else 0.0
        return (
            f"{self.audio:.1f} s of audio, encoder {self.encoding:.2f} s, search "
            f"{self.searching:.2f} s: real-time factor {rate:.4f}"
        )


def transcribe(
    recogniser: Recogniser,
    utterances: Iterable[Any],
    decoder: Decoder | None = None,
    *,
    n_best: int = 1,
    lm: Any = None,
    lm_weight: float = 0.0,
    batch_size: int = 16,
    on_error: Callable[[Exception], object] | None = None,
    clock: Clock | None = None,
    emission_dir: Path | None = None,
    speech: Speech | None = None,
) -> Iterator[Heard]:
    """What `recogniser` hears in recordings, in their order: by the best path, or by `decoder`.

    n_best     hypotheses of the search; those are rescored with `lm` and `lm_weight` if it is given
    on_error   is told of recordings that cannot be used; by default the error is raised
    clock      adds up times
    emission_dir   a folder where emissions are written as ID.npy, for `fl-text decode`
    speech     times of words agree with it: as in `align`
    """
    clock = clock or Clock()
    found = emissions_of(recogniser, utterances, batch_size=batch_size, on_error=on_error)
    while True:
        start = time.perf_counter()
        group = list(islice(found, _GROUP))
        clock.encoding += time.perf_counter() - start
        if not group:
            return
        if emission_dir is not None:
            emission_dir.mkdir(parents=True, exist_ok=True)
            for each in group:
                name = each.utterance.id.replace("/", "#")
                np.save(emission_dir / f"{name}.npy", each.scores)
        start = time.perf_counter()
        if decoder is None:
            heard = [_greedy(recogniser, each) for each in group]
        else:
            lists = decoder([each.scores for each in group], n_best=n_best)
            heard = [
                _searched(decoder, each, hypotheses, lm, lm_weight)
                for each, hypotheses in zip(group, lists, strict=True)
            ]
        clock.searching += time.perf_counter() - start
        clock.audio += sum(len(each.scores) * each.frame_ms for each in group) / 1000
        for one in heard:
            yield one if speech is None else _fitted(one, speech)


def _greedy(recogniser: Recogniser, each: Emissions) -> Heard:
    with nn.evaluating(recogniser):
        scores = ft.asarray(each.scores[None], ft.dtype(recogniser.recipe.dtype))
        path = recogniser.criterion.best_path(scores)[0]
    said = recogniser.reader.prediction(path)
    return Heard(each.utterance, said.words, said.tokens, [], [], len(each.scores))


def _searched(
    decoder: Decoder, each: Emissions, hypotheses: list[Any], lm: Any, lm_weight: float
) -> Heard:
    scored = [Scored(decoder.words(h), h.score, h.emitting_score, h.lm_score) for h in hypotheses]
    times: list[tuple[str, float, float, float]] = []
    if hypotheses and decoder.lexicon is not None and decoder.decoding != "seq2seq":
        times = [_time(span, each.frame_ms) for span in hypotheses[0].spans]
    if lm is not None:
        first = scored[0] if scored else None
        scored = rescore(scored, lm, lm_weight)
        if scored and first is not None and scored[0].words != first.words:
            chosen = [h for h in hypotheses if decoder.words(h) == scored[0].words]
            times = [_time(span, each.frame_ms) for span in chosen[0].spans] if times else []
    words = scored[0].words if scored else []
    tokens = list("".join(words)) if decoder.lexicon is not None else []
    if hypotheses and decoder.lexicon is None:
        tokens = decoder.recogniser.reader.prediction(list(hypotheses[0].tokens)).tokens
    return Heard(each.utterance, words, tokens, scored, times, len(each.scores))


def _fitted(heard: Heard, speech: Speech) -> Heard:
    """With words that begin and end with speech."""
    if not heard.times:
        return heard
    spans = [(start, end) for _, start, end, _ in heard.times]
    found = fit_to_speech(spans, speech(heard.utterance.path))
    times = [(t[0], *span, t[3]) for t, span in zip(heard.times, found, strict=True)]
    return heard._replace(times=times)


def _time(span: Span, frame_ms: float) -> tuple[str, float, float, float]:
    seconds = frame_ms / 1000
    return span.text, span.start * seconds, span.end * seconds, span.confidence
