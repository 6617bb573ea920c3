"""Connected words: the grammar, the joined recordings, the times of words."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fl_speech as speech
import fl_tensor as ft
import fl_text as text
from fl_speech.datasets import (
    DIGITS,
    ConnectedWords,
    Grammar,
    ListFile,
    SpeechDataset,
    TargetGenerator,
    Utterance,
    batches,
    read_digits,
    word_bounds,
)
from fl_speech.errors import SpeechDataError

RATE = 8000


def test_the_perplexity_is_what_was_asked_for() -> None:
    for asked in (5.0, 7.5):
        assert Grammar(perplexity=asked, seed=3).perplexity() == pytest.approx(asked, abs=1e-6)


def test_the_perplexity_is_that_of_the_strings() -> None:
    grammar = Grammar()
    strings = grammar.strings(3000, seed=1)
    lengths = Counter(map(len, strings))
    assert sorted(lengths) == [3, 4, 5, 6, 7] and min(lengths.values()) > 500
    assert {string[0] for string in strings} == set(DIGITS)
    bits = 0.0
    for string in strings:
        bits += math.log(10)
        for before, after in zip(string, string[1:], strict=False):
            bits -= math.log(grammar.probability(before, after))
    assert math.exp(bits / sum(map(len, strings))) == pytest.approx(6.0, rel=0.05)


def test_strings_are_seeded_and_leave_others_out() -> None:
    test = Grammar().strings(50, seed=1)
    assert test == Grammar().strings(50, seed=1) != Grammar().strings(50, seed=2)
    assert Grammar(seed=1).strings(50, seed=1) != test
    training = Grammar().strings(2000, seed=0, without=test)
    assert set(Grammar().strings(2000, seed=0)) & set(test)
    assert not set(training) & set(test)


def test_grammars_that_cannot_be() -> None:
    for wrong in (
        {"perplexity": 1.0},
        {"perplexity": 11.0},
        {"min_words": 0},
        {"min_words": 8},
        {"words": ["a"]},
        {"words": "ab"},
    ):
        with pytest.raises(SpeechDataError):
            Grammar(**wrong)  # type: ignore[arg-type]
    two = Grammar(["a", "b"], perplexity=2.0, min_words=1, max_words=1)
    with pytest.raises(SpeechDataError, match="leave none"):
        two.strings(1, without=[("a",), ("b",)])
    for count in (-1, 1.5, math.inf):
        with pytest.raises(ft.FlError, match="count"):
            two.strings(count)  # type: ignore[arg-type]


def test_bounds_of_a_word() -> None:
    sound = np.zeros(1000)
    sound[163:402] = 0.5
    sound[402:480] = 0.5 * 10 ** (-40 / 20)  # below -35 dB
    assert word_bounds(sound, RATE) == (20.0, 60.0)  # frames of 80 samples: number 2 to 5
    assert word_bounds(sound, RATE, below_db=45) == (20.0, 60.0)
    sound[480:560] = 0.5 * 10 ** (-40 / 20)
    assert word_bounds(sound, RATE) == (20.0, 60.0)
    assert word_bounds(sound, RATE, below_db=45) == (20.0, 70.0)
    assert word_bounds(np.zeros(100), RATE) == (0.0, 12.5)
    assert word_bounds(np.ones(100), RATE) == (0.0, 12.5)
    for wrong in (np.zeros((2, 2)), np.zeros(0).reshape(0, 3)):
        with pytest.raises(SpeechDataError):
            word_bounds(wrong, RATE)


@pytest.fixture
def words(write: Callable[..., Path], tmp_path: Path) -> list[Utterance]:
    """Tones of two speakers; only anna says "two"."""
    for label, speaker, take in [(0, "anna", 0), (0, "anna", 1), (1, "anna", 0), (2, "anna", 0),
                                 (0, "bob", 0), (1, "bob", 0)]:  # fmt: skip
        sound = np.zeros(1600)
        wave = np.sin(np.arange(800) * (0.3 + 0.1 * label + 0.03 * take))
        sound[400:1200] = wave * (0.5 if speaker == "anna" else 0.25)
        write(f"words/{label}_{speaker}_{take}.wav", sound, RATE)
    return read_digits(tmp_path / "words")


STRINGS = [("zero", "one", "zero"), ("two", "zero"), ("one",)] * 4


def test_words_are_where_the_times_say(words: list[Utterance]) -> None:
    made = ConnectedWords(words, STRINGS, noise_db=None)
    pauses = []
    for one in made.utterances:
        samples, rate = made.load(one)
        loud = np.abs(np.asarray(samples)) > 0.01
        times = made.times(one)
        assert rate == RATE and tuple(time.word for time in times) == one.words
        assert len(samples) / 8 == pytest.approx(one.duration_ms, abs=0.2 * len(times))
        inside = np.zeros(len(loud), bool)
        for time in times:
            assert time.end_ms - time.start_ms == pytest.approx(100)
            inside[round(time.start_ms * 8) : round(time.end_ms * 8)] = True
        assert not np.any(loud & ~inside)
        assert np.mean(loud[inside]) > 0.9
        gaps = [b.start_ms - a.end_ms - 100 for a, b in zip(times, times[1:], strict=False)]
        pauses += [times[0].start_ms - 50, *gaps]
    assert min(pauses) >= -0.2 and max(pauses) <= 300.2 and max(pauses) - min(pauses) > 150


def test_a_sentence_has_one_speaker_who_says_all_of_it(words: list[Utterance]) -> None:
    made = ConnectedWords(words, STRINGS)
    speakers = {one.speaker for one in made.utterances if one.words != ("two", "zero")}
    assert speakers == {"anna", "bob"}
    assert all(one.speaker == "anna" for one in made.utterances if one.words == ("two", "zero"))
    with pytest.raises(SpeechDataError, match="sample 'connected-00000': no speaker says"):
        ConnectedWords(words, [("three",)])


def test_noise_has_its_level(words: list[Utterance]) -> None:
    clean = ConnectedWords(words, STRINGS, noise_db=None)
    noisy = ConnectedWords(words, STRINGS, noise_db=(10, 30))
    levels = []
    for a, b in zip(clean.utterances, noisy.utterances, strict=True):
        x, y = (np.asarray(made.load(one)[0], float) for made, one in ((clean, a), (noisy, b)))
        levels.append(10 * np.log10(np.mean(x**2) / np.mean((y - x) ** 2)))
        assert clean.times(a) == noisy.times(b)
    assert 9.5 < min(levels) and max(levels) < 30.5 and max(levels) - min(levels) > 8


def test_everything_is_drawn_by_the_seed(words: list[Utterance]) -> None:
    first, again, other = (ConnectedWords(words, STRINGS, seed=seed) for seed in (1, 1, 2))
    one = first.utterances[3]
    again.load(again.utterances[0])
    a, b = np.asarray(first.load(one)[0]), np.asarray(again.load(one)[0])
    assert np.array_equal(a, b) and first.utterances == again.utterances
    assert other.utterances != first.utterances


def test_files_say_the_same(words: list[Utterance], tmp_path: Path) -> None:
    made = ConnectedWords(words, STRINGS[:3])
    made.write(tmp_path / "out")
    listed = ListFile(tmp_path / "out" / "list.lst")
    times = json.loads((tmp_path / "out" / "times.json").read_text())
    for one, read in zip(made.utterances, listed, strict=True):
        assert (read.id, read.words) == (one.id, one.words)
        assert read.duration_ms == pytest.approx(one.duration_ms)
        samples, rate = speech.load_audio(read.path)
        assert rate == RATE
        assert np.abs(np.asarray(samples[0]) - np.asarray(made.load(one)[0])).max() < 1e-4
        assert [tuple(time) for time in times[one.id]] == made.times(one)


def test_they_make_a_dataset(words: list[Utterance]) -> None:
    made = ConnectedWords(words, STRINGS[:3])
    features = speech.LogMel(speech.FeatureParams(sample_rate=RATE, filters=8))
    letters = text.Dictionary(["|", *sorted(set("".join(DIGITS)))])
    ds = SpeechDataset(made.utterances, features, TargetGenerator(letters), load=made.load)
    (batch,) = batches(ds, 3)
    assert batch[0].shape[0] == 3 and batch[2].dtype == ft.int64


@pytest.mark.parametrize(
    "wrong",
    [
        {"pause_ms": (5.0, 1.0)},
        {"pause_ms": (-5.0, 1.0)},
        {"noise_db": (5.0, math.inf)},
        {"words": [Utterance("a", "/x", 1.0, ("a", "b"))]},
    ],
)
def test_settings_that_make_no_sense(words: list[Utterance], wrong: dict[str, Any]) -> None:
    with pytest.raises(SpeechDataError):
        ConnectedWords(**{"words": words, "strings": STRINGS, **wrong})


def test_foreign_utterances_and_unequal_rates(
    words: list[Utterance], write: Callable[..., Path]
) -> None:
    made = ConnectedWords(words, STRINGS)
    with pytest.raises(SpeechDataError, match="sample '0_anna_0': it is none of these"):
        made.load(words[0])
    path = write("words/2_anna_0.wav", np.zeros(3200), 16000)
    assert path.exists()
    two = next(one for one in made.utterances if one.words == ("two", "zero"))
    with pytest.raises(SpeechDataError, match="8000 Hz"):
        made.load(two)


def test_real_digits(recordings: Path) -> None:
    words = read_digits(recordings, "test")
    grammar = Grammar()
    assert grammar.perplexity() >= 5
    made = ConnectedWords(words, grammar.strings(3, seed=1))
    for one in made.utterances:
        times = made.times(one)
        assert 3 <= len(times) <= 7
        assert all(a.end_ms <= b.start_ms for a, b in zip(times, times[1:], strict=False))
