"""What decoders take, what they refuse, and what hypotheses say."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from decoder_cases import write_arpa

import fl_tensor as ft
from fl_text.decoder import DecoderOptions, LexiconDecoder, LexiconFreeDecoder, Trie
from fl_text.dictionary import Dictionary
from fl_text.errors import FlError, TextError
from fl_text.lexicon import Lexicon
from fl_text.ngram import NGramModel

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")

LETTERS = Dictionary(["|", "a", "b", "#"])
WORDS = Dictionary(["a", "ab", "<unk>"])
INF = math.inf


def trie(**more: object) -> Trie:
    return Trie([(1, 0), (1, 2, 0)], [0, 1], tokens=4, **more)


def lexicon_decoder(**more: object) -> LexiconDecoder:
    return LexiconDecoder(trie(), LETTERS, words=WORDS, **more)


def said(*tokens: int) -> np.ndarray:
    """Emissions of a path, nearly certain."""
    return np.log(np.eye(4, dtype=np.float32)[list(tokens)] * 0.96 + 0.01)


def test_words_have_times_and_confidences() -> None:
    (best, *others) = lexicon_decoder().decode(said(0, 1, 3, 2, 2, 0, 3, 1, 0, 0))
    assert (best.text, best.words) == ("ab a", (1, 0))
    assert best.tokens == (0, 1, 3, 2, 2, 0, 3, 1, 0, 0)
    assert [span[:4] for span in best.spans] == [(1, "ab", 1, 5), (0, "a", 7, 8)]
    assert all(0.9 < span.confidence <= 1 for span in best.spans)
    assert best.confidence + sum(h.confidence for h in others) == pytest.approx(1)
    assert best.score == pytest.approx(best.emitting_score)


def test_without_a_lexicon_tokens_have_times() -> None:
    best = LexiconFreeDecoder(LETTERS).decode(said(1, 1, 3, 1, 0, 2, 2), n_best=1)[0]
    assert (best.text, best.words) == ("aa b", ())
    assert [span[:4] for span in best.spans] == [
        (1, "a", 0, 2),
        (1, "a", 3, 4),
        (0, " ", 4, 5),
        (2, "b", 5, 7),
    ]


def test_the_confidence_of_a_word_counts_all_hypotheses_with_it() -> None:
    emissions = said(1, 2, 0)
    emissions[1, [1, 2]] = np.log([0.4, 0.5])  # "a" or "ab"
    found = lexicon_decoder(options=DecoderOptions(log_add=True)).decode(emissions)
    assert [h.text for h in found[:2]] == ["ab", "a"]
    assert found[0].spans[0].confidence == pytest.approx(found[0].confidence)
    assert found[0].confidence > found[1].confidence > 0.3


def test_tensors_and_arrays_of_any_float_are_taken() -> None:
    decoder, emissions = lexicon_decoder(), said(1, 2, 0)
    wanted = decoder.decode(emissions)[0].score
    for given in (ft.asarray(emissions), emissions.astype(np.float64), emissions.tolist()):
        assert decoder.decode(given)[0].score == pytest.approx(wanted)
    strided = np.repeat(emissions, 2, axis=1)[:, ::2]
    assert decoder.decode(strided)[0].score == wanted


def test_no_frames_are_the_empty_hypothesis() -> None:
    (only,) = lexicon_decoder().decode(np.zeros((0, 4), np.float32))
    assert (only.score, only.words, only.tokens, only.confidence) == (0, (), (), 1)
    assert lexicon_decoder().begin().best().text == ""


def test_where_nothing_is_possible_there_is_no_hypothesis() -> None:
    emissions = said(1, 2, 0)
    emissions[1] = -INF
    for decoder in (lexicon_decoder(), LexiconFreeDecoder(LETTERS)):
        assert decoder.decode(emissions) == []
        stream = decoder.begin()
        stream.step(emissions)
        assert stream.best() is None
        assert stream.prune() is None
        assert stream.end() == []


def test_an_impossible_token_is_not_taken() -> None:
    emissions = said(1, 2, 0)
    emissions[1, 2] = -INF
    for log_add in (False, True):
        options = DecoderOptions(log_add=log_add)
        assert all(2 not in h.tokens for h in lexicon_decoder(options=options).decode(emissions))


def test_look_back_bounds_what_a_stream_holds() -> None:
    rng = np.random.default_rng(0)
    decoder = LexiconFreeDecoder(LETTERS, None, DecoderOptions(beam_size=50))
    stream, settled = decoder.begin(), 0
    for _ in range(12):
        stream.step(rng.normal(size=(5, 4)).astype(np.float32))
        if (done := stream.prune(look_back=3)) is not None:
            settled += len(done.tokens)
        assert len(stream.best().tokens) <= 5 + 3 + 5
    assert settled >= 12 * 5 - 3 - 10
    assert stream._tables.trace.counts[0] <= 3


def test_a_stream_that_is_over_says_so() -> None:
    with lexicon_decoder().begin() as stream:
        stream.step(said(1, 0))
    for wrong in (0, -2):
        with pytest.raises(TextError, match=f"n_best is {wrong}: give at least 1"):
            lexicon_decoder().decode(said(1, 0), n_best=wrong)
    with pytest.raises(TextError, match="look_back is -1"):
        lexicon_decoder().begin().prune(-1)
    for call in (stream.best, stream.prune, stream.end, lambda: stream.step(said(1))):
        with pytest.raises(TextError, match="this search is over: begin another one"):
            call()


@pytest.mark.parametrize(
    ("emissions", "message"),
    [
        (np.zeros((3, 5), np.float32), r"have shape \(3, 5\): give \(frames, 4\)"),
        (np.zeros(4, np.float32), r"have shape \(4,\)"),
        (np.full((3, 4), np.nan, np.float32), "nan at frame 0, token 0"),
        (np.full((3, 4), INF), "inf at frame 0, token 0"),
        (np.full((1, 4), 1e300), "inf at frame 0, token 0"),
        (np.zeros((3, 4), complex), "dtype complex128"),
        ([[0.0] * 4, [0.0]], "no array of numbers"),
        ("abcd", "have dtype"),
        (None, "have dtype"),
    ],
)
def test_emissions_that_do_not_fit(emissions: object, message: str) -> None:
    with pytest.raises(TextError, match=message):
        lexicon_decoder().decode(emissions)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"beam_size": 0}, "beam_size is 0: give an int from 1"),
        ({"beam_size": 2.5}, "beam_size.* an int"),
        ({"beam_size_token": -1}, "beam_size_token is -1"),
        ({"beam_threshold": -1.0}, "a distance from the best score, at least 0"),
        ({"beam_threshold": INF}, "beam_threshold is inf"),
        ({"lm_weight": math.nan}, "lm_weight is nan"),
        ({"unk_score": INF}, "unk_score is inf"),
        ({"sil_score": "1"}, "sil_score.* a number"),
        ({"criterion": "s2s"}, r"criterion is 's2s': use one of \('ctc', 'asg'\)"),
    ],
)
def test_options_that_do_not_fit(setting: dict[str, object], message: str) -> None:
    with pytest.raises(FlError, match=message):
        DecoderOptions(**setting)


def test_options_have_the_names_and_defaults_of_the_original() -> None:
    assert dataclasses.asdict(DecoderOptions()) == {
        "beam_size": 2500,
        "beam_size_token": 250000,
        "beam_threshold": 25.0,
        "lm_weight": 0.0,
        "word_score": 0.0,
        "unk_score": -INF,
        "sil_score": 0.0,
        "eos_score": 0.0,
        "log_add": False,
        "criterion": "ctc",
    }


ASG = DecoderOptions(criterion="asg")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"silence": "_"}, "the dictionary has no '_': give silence="),
        ({"silence": 4}, "silence is 4: give a token, or a number from 0 to 3"),
        ({"blank": -1}, "blank is -1"),
        ({"transitions": np.zeros((4, 4))}, "transitions belong to criterion='asg'"),
        ({"options": ASG, "transitions": np.zeros((4, 3))}, r"shape \(4, 3\): give \(4, 4\)"),
        ({"options": ASG, "transitions": np.full((4, 4), np.nan)}, "not finite"),
        ({"options": DecoderOptions(unk_score=0.0), "unknown": "?"}, "the words have no '\\?'"),
        ({"hot_words": {"c": 1.0}}, "hot word 'c' is not in the lexicon"),
        ({"hot_words": {"a": INF}}, "the boost of 'a' is inf"),
    ],
)
def test_settings_that_do_not_fit(more: dict[str, object], message: str) -> None:
    with pytest.raises(TextError, match=message):
        lexicon_decoder(**more)


def test_a_trie_of_other_dictionaries_is_refused() -> None:
    with pytest.raises(TextError, match="the trie has 4 tokens, the dictionary 3"):
        LexiconDecoder(trie(), Dictionary(["|", "a", "#"]), words=WORDS)
    with pytest.raises(TextError, match="the trie has words 0 to 1, the dictionary 1 words"):
        LexiconDecoder(trie(), LETTERS, words=Dictionary(["a"]))
    with pytest.raises(TextError, match="a Trie has numbers of words: give the dictionary"):
        LexiconDecoder(trie(), LETTERS)
    with pytest.raises(TextError, match="a dictionary of 0 tokens"):
        LexiconFreeDecoder(Dictionary([]))


@pytest.mark.parametrize(
    ("spellings", "labels", "more", "message"),
    [
        ([], [], {}, "there is no spelling"),
        ([(1,), ()], [0, 1], {}, "spelling 1 is empty"),
        ([(1,), (1, 4)], [0, 1], {}, "spelling 1 has token 4: tokens are 0 to 3"),
        ([(1,), (-1,)], [0, 1], {}, "spelling 1 has token -1"),
        ([(1,)], [-1], {}, "labels are numbers of words"),
        ([(1,)], [0, 1], {}, "1 spellings, but labels have shape"),
        ([(1,)], [0], {"scores": [math.nan]}, "score 0 is nan"),
        ([(1,)], [0], {"smearing": "mean"}, "smearing is 'mean'"),
    ],
)
def test_tries_that_do_not_fit(spellings, labels, more, message) -> None:
    with pytest.raises(TextError, match=message):
        Trie(spellings, labels, tokens=4, **more)


def test_a_trie_has_at_most_six_words_a_spelling() -> None:
    with pytest.warns(UserWarning, match="2 words are left out"):
        made = Trie([(1,)] * 8 + [(1, 2)], range(9), tokens=4)
    assert made.tables.label.tolist() == [0, 1, 2, 3, 4, 5, 8]


@pytest.mark.parametrize(
    ("smearing", "wanted"),
    [
        ("max", [np.logaddexp(-1, -2), -3.0]),
        ("logadd", [np.logaddexp.reduce([-1, -2, -3]), -3.0]),
        ("none", [0.0, 0.0]),
    ],
)
def test_scores_of_words_are_smeared_over_prefixes(smearing: str, wanted: list[float]) -> None:
    made = Trie([(1,), (1,), (1, 2, 3)], [0, 1, 2], [-1, -2, -3], tokens=4, smearing=smearing)
    found = [made.tables.smear[made.find(prefix)] for prefix in ((1,), (1, 2))]
    assert found == pytest.approx(wanted)
    assert (len(made), made.find((2,)), made.find(())) == (4, -1, 0)


def test_a_lexicon_is_enough() -> None:
    lexicon = Lexicon({"a": [["a", "|"]], "ab": [["a", "b", "|"]]})
    assert LexiconDecoder(lexicon, LETTERS).decode(said(0, 1, 3, 2, 2, 0))[0].text == "ab"
    tokens = Dictionary(["|", "a", "<1>", "#"])
    double = Lexicon({"aa": [["a", "a", "|"]]})
    decoder = LexiconDecoder(double, tokens, max_reps=1, options=ASG)
    assert decoder.decode(said(1, 1, 2, 0))[0].text == "aa"
    with pytest.raises(TextError, match="needs the tokens <1> .. <1>"):
        LexiconDecoder(double, LETTERS, max_reps=1)


def test_a_trie_of_a_lexicon_has_the_scores_of_the_language_model(tmp_path: Path) -> None:
    lexicon = Lexicon({"a": [["a", "|"]], "ab": [["a", "b", "|"], ["b", "|"]]})
    write_arpa(tmp_path / "lm.arpa", ["a", "ab"], np.random.default_rng(0))
    lm = NGramModel.from_arpa(tmp_path / "lm.arpa")
    words = Dictionary(lexicon)
    made = Trie.from_lexicon(lexicon, LETTERS, words, lm, smearing="max")
    start = np.full(2, lm.start, np.int32)
    wanted, _ = lm.score_words(start, lm.indices(["a", "ab"]))
    found = [made.tables.smear[made.find(prefix)] for prefix in ((1, 0), (1, 2), (2,), (1,))]
    assert found == pytest.approx([*wanted, wanted[1], max(wanted)], abs=1e-6)
    decoder = LexiconDecoder(lexicon, LETTERS, lm, DecoderOptions(lm_weight=2.0))
    best = decoder.decode(said(0, 1, 0))[0]
    score = lm.score(best.text)
    assert best.lm_score == pytest.approx(score, abs=1e-6)
    assert best.score == pytest.approx(best.emitting_score + 2 * score, abs=1e-5)
