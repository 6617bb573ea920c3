"""Connected digits: single recordings joined, with pauses and noise; words and their times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lists_and_streams import rescored, streamed
from tasks import Figure, Place, emissions, greedy, lexicon_rate, searched, trained

from fl_speech import load_audio
from fl_speech.datasets import ConnectedWords, Grammar, ListFile, Utterance, read_digits
from fl_speech.inference import align, fit_to_speech, speech_by_level, speech_in_file
from fl_speech.recogniser import Recogniser
from fl_speech.training import train_speech_detector
from fl_text.cli import main as fl_text
from fl_text.ngram import NGramModel

#: Weights of the language model that the development strings choose from.
WEIGHTS = (0.5, 1.0, 2.0, 4.0)
#: Milliseconds of a frame of speech or silence.
FRAME = 10.0


def written(place: Place) -> Path:
    """The folder with lists of connected digits, their language model, tokens and lexicon.

    A string of the development or test list is none of training. Development strings are made of
    takes of training, test strings of takes of the test.
    """
    folder = place.out / "connected"
    if (folder / "lexicon.txt").is_file():
        return folder
    grammar = Grammar(perplexity=6.0)
    few = max(1, place.strings // 5)
    test, dev = grammar.strings(few, seed=2), grammar.strings(few, seed=3)
    train = grammar.strings(place.strings, seed=1, without={*test, *dev})
    words = {split: read_digits(place.data, split) for split in ("train", "test")}
    for seed, (name, strings) in enumerate({"train": train, "dev": dev, "test": test}.items()):
        takes = words["test" if name == "test" else "train"]
        ConnectedWords(takes, strings, seed=seed, name=name).write(folder / name)
        (folder / f"{name}.lst").write_bytes((folder / name / "list.lst").read_bytes())
    text = folder / "train.txt"
    text.write_text("".join(f"{' '.join(string)}\n" for string in train))
    options = ["--order", "3", "--discount-fallback", "0.5", "1", "1.5"]
    if fl_text(["ngram", "train", str(text), "-o", str(folder / "digits.arpa"), *options]):
        raise RuntimeError("fl-text ngram train failed")
    letters = sorted({letter for word in grammar.words for letter in word})
    (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in ("|", *letters)))
    lines = [f"{word} {' '.join(word)} |\n" for word in sorted(grammar.words)]
    (folder / "lexicon.txt").write_text("".join(lines))
    return folder


def connected(place: Place) -> list[Figure]:
    """Word error rates with and without language model; times of words; speech and silence."""
    lists = written(place)
    recogniser = trained(place, "connected-digits-ctc", lists, "connected-ctc")
    test, times = _list(lists, "test")
    dev = emissions(recogniser, _list(lists, "dev")[0])
    lm = NGramModel.open(lists / "digits.arpa")
    rates = {weight: lexicon_rate(recogniser, dev, lm, lm_weight=weight) for weight in WEIGHTS}
    weight = min(rates, key=rates.__getitem__)
    found = emissions(recogniser, test)
    return [
        Figure("perplexity of the grammar", Grammar(perplexity=6.0).perplexity(), "", 5.0, True),
        Figure("weight of the language model (of dev)", weight, ""),
        Figure("WER greedy", greedy(recogniser, test)),
        Figure("WER with lexicon", lexicon_rate(recogniser, found)),
        Figure("WER with lexicon and LM", lexicon_rate(recogniser, found, lm, lm_weight=weight),
               bar=3.0),
        *rescored(recogniser, dev, lm),
        *_decoder_times(recogniser, found, times, lm, weight),
        *_aligned(recogniser, test, times, None),
        *voice_activity(lists),
    ]  # fmt: skip


def streaming(place: Place) -> list[Figure]:
    """Strings in random chunks, by a recogniser whose features do not need what comes later."""
    lists = written(place)
    options = ("--normalise", "local")
    recogniser = trained(place, "connected-digits-ctc", lists, "connected-stream", *options)
    test, _ = _list(lists, "test")
    found = emissions(recogniser, test)
    lm = NGramModel.open(lists / "digits.arpa")
    return [
        Figure("WER with lexicon and LM", lexicon_rate(recogniser, found, lm, lm_weight=1.0)),
        *streamed(recogniser, test, found, lm, 1.0),
    ]


def alignment(place: Place) -> list[Figure]:
    """Times of words by forced alignment with ASG."""
    lists = written(place)
    recogniser = trained(place, "connected-digits-asg", lists, "connected-asg")
    test, times = _list(lists, "test")
    return _aligned(recogniser, test, times, 40.0)


Times = dict[str, list[tuple[str, float, float]]]


def _list(lists: Path, name: str) -> tuple[list[Utterance], Times]:
    times = json.loads((lists / name / "times.json").read_text())
    return list(ListFile(lists / f"{name}.lst", root="/")), times


def _aligned(
    recogniser: Recogniser, test: Sequence[Utterance], times: Times, bar: float | None
) -> list[Figure]:
    """Median distances of starts and ends of words by forced alignment."""
    pairs = []
    for each in align(recogniser, test, speech=speech_in_file):
        words = [s for s in each.segments if s.word != "$"]
        pairs += [
            (1000 * s.start, 1000 * s.end, *truth[1:])
            for s, truth in zip(words, times[each.utterance.id], strict=True)
        ]
    kind = recogniser.recipe.criterion
    return _medians(pairs, f"forced alignment by {kind}", bar)


def _decoder_times(
    recogniser: Recogniser, found: Sequence[Any], times: Times, lm: Any, weight: float
) -> list[Figure]:
    """The same of the decoder, over recordings whose words it finds."""
    pairs = []
    for each, best in zip(found, searched(recogniser, found, lm, lm_weight=weight), strict=True):
        truth = times[each.utterance.id]
        if best is None or best.text.split() != [word for word, *_ in truth]:
            continue
        seconds = each.frame_ms / 1000
        spans = [(span.start * seconds, span.end * seconds) for span in best.spans]
        found_spans = fit_to_speech(spans, speech_in_file(each.utterance.path))
        pairs += [
            (1000 * first, 1000 * last, start, end)
            for (first, last), (_, start, end) in zip(found_spans, truth, strict=True)
        ]
    return _medians(pairs, "words of the decoder", 60.0)


def _medians(
    pairs: Iterable[tuple[float, float, float, float]], name: str, bar: float | None
) -> list[Figure]:
    values = np.asarray(list(pairs), np.float64).reshape(-1, 4)
    found = []
    for which, place in (("starts", 0), ("ends", 1)):
        away = np.abs(values[:, place] - values[:, place + 2])
        median = float(np.median(away)) if len(away) else float("nan")
        found.append(Figure(f"{name}: {which}, median distance", median, "ms", bar))
    return found


def voice_activity(lists: Path) -> list[Figure]:
    """F1 of frames with speech: by level, and by a network that learns from other strings."""
    learned, rate = [], 0
    for one, spans in _spans(lists, "train"):
        samples, rate = _samples(one)
        learned.append((samples, [(start / 1000, end / 1000) for start, end in spans]))
    detector = train_speech_detector(learned, rate)
    test = [(*_samples(one), spans) for one, spans in _spans(lists, "test")]
    ways = {
        "level": (speech_by_level(samples, rate) for samples, rate, _ in test),
        "a network": (detector.speech(samples) for samples, *_ in test),
    }
    truth = [spans for *_, spans in test]
    return [
        Figure(f"F1 of voice activity by {name}", _f1(found, truth), "", bar, True)
        for (name, found), bar in zip(ways.items(), (None, 0.95), strict=True)
    ]


Spans = list[tuple[float, float]]


def _spans(lists: Path, name: str) -> list[tuple[Utterance, Spans]]:
    """Recordings, and when their words are said, in milliseconds."""
    utterances, times = _list(lists, name)
    return [(one, [(start, end) for _, start, end in times[one.id]]) for one in utterances]


def _samples(one: Utterance) -> tuple[np.ndarray, int]:
    audio, rate = load_audio(one.path)
    return np.asarray(audio).mean(axis=0), rate


def _f1(found: Iterable[np.ndarray], truth: Iterable[Spans]) -> float:
    right = said = true = 0
    for flags, spans in zip(found, truth, strict=True):
        middles = FRAME * (np.arange(len(flags)) + 0.5)
        spoken = np.zeros(len(flags), bool)
        for start, end in spans:
            spoken |= (start <= middles) & (middles < end)
        right += int((flags & spoken).sum())
        said, true = said + int(flags.sum()), true + int(spoken.sum())
    return 2 * right / max(1, said + true)
