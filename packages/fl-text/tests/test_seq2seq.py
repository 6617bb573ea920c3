"""Sequence-to-sequence decoders against a search that is written down directly."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seq2seq_cases import Seq2SeqCase, differences, random_case, reference

import fl_tensor as ft
from fl_text import Dictionary, Lexicon, TextError
from fl_text.decoder import (
    DecoderOptions,
    LexiconFreeSeq2SeqDecoder,
    LexiconSeq2SeqDecoder,
    Trie,
    per_hypothesis,
)
from fl_text.language_model import ZeroLM
from fl_text.models import GPT2

LETTERS = ["a", "b", "c", "d", "</s>"]


def free(update: Any, **options: Any) -> LexiconFreeSeq2SeqDecoder:
    length = options.pop("max_output_length", 3)
    return LexiconFreeSeq2SeqDecoder(
        Dictionary(LETTERS), update, None, DecoderOptions(**options), max_output_length=length
    )


STEPS = [[0.1, 0.1, 0.5, 0.1], [0.5, 0.2, 0.1, 0.0], [0.1, 0.5, 0.1, 0.1]]


def test_the_fixture_of_the_original() -> None:
    def update(tokens: Any, steps: Any) -> Any:
        assert tokens.tolist() == [-1] if steps is None else len(tokens) == len(steps)
        steps = np.zeros(1, np.int64) if steps is None else steps
        rows = np.array([[*STEPS[step], -math.inf] for step in steps])
        return rows, steps + 1

    found = free(update, beam_size=2, beam_size_token=4, beam_threshold=1000.0).decode()
    assert [list(h.tokens) for h in found] == [[2, 0, 1], [2, 1, 1]]
    assert [h.score for h in found] == pytest.approx([1.5, 1.2])
    assert [h.emitting_score for h in found] == pytest.approx([1.5, 1.2])
    assert [h.lm_score for h in found] == [0, 0]
    assert [h.text for h in found] == ["cab", "cbb"]


def test_update_functions_of_the_original_have_an_adapter() -> None:
    emissions, calls = np.zeros((3, 4)), []

    def function(given: Any, n: int, t: int, tokens: Any, rows: Any, states: Any, step: int) -> Any:
        assert given is emissions and (n, t) == (4, 3)
        calls.append((tokens, rows, states, step))
        return [[*STEPS[step], -math.inf]] * len(tokens), [f"{step}{k}" for k in range(len(tokens))]

    decoder = free(per_hypothesis(function, emissions), beam_size=2)
    assert [list(h.tokens) for h in decoder.decode()] == [[2, 0, 1], [2, 1, 1]]
    assert calls[0] == ([-1], [-1], [None], 0)
    assert calls[1] == ([2, 0], [0, 0], ["00", "00"], 1)
    assert calls[2] == ([0, 1], [0, 0], ["10", "10"], 2)
    assert len(decoder.decode()) == 2, "a decoder decodes any number of utterances"


def test_a_state_that_is_none_drops_its_hypothesis() -> None:
    def function(_: Any, n: int, t: int, tokens: Any, rows: Any, states: Any, step: int) -> Any:
        return [[*STEPS[step], -9.0]] * len(tokens), [None if token == 2 else 0 for token in tokens]

    found = free(per_hypothesis(function, np.zeros((3, 4))), beam_size=3).decode()
    assert found and all(2 not in h.tokens[:-1] for h in found)


@pytest.mark.parametrize("seed", range(40))
def test_random_models_decode_as_written_down(seed: int, tmp_path: Path) -> None:
    case = random_case(seed, tmp_path)
    assert not differences(case.decoder().decode(), reference(case)), case


def test_an_exhaustive_beam_finds_the_most_likely_sequences(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = np.log(random.dirichlet(np.ones(5), (4, 6)))  # by step and previous token

    def update(tokens: Any, steps: Any) -> Any:
        steps = np.zeros(1, np.int64) if steps is None else steps
        return table[steps, tokens], steps + 1

    found = free(update, beam_size=10**6, beam_threshold=1e9, max_output_length=4).decode()

    def every(tokens: list[int], score: float) -> list[tuple[float, list[int]]]:
        if tokens[-1:] == [4] or len(tokens) == 4:
            return [(score, tokens)]
        row = table[len(tokens), tokens[-1] if tokens else -1]
        return [y for n in range(5) for y in every([*tokens, n], score + row[n])]

    wanted = sorted(every([], 0.0), reverse=True)
    assert [list(h.tokens) for h in found] == [tokens for _, tokens in wanted]
    assert [h.score for h in found] == pytest.approx([score for score, _ in wanted])
    assert sum(h.confidence for h in found) == pytest.approx(1)
    assert sum(math.exp(h.score) for h in found) == pytest.approx(1)


def test_states_may_be_arrays_tensors_caches_and_structures_of_them() -> None:
    seen: list[int] = []

    def update(tokens: Any, states: Any) -> Any:
        if states is None:
            states = {"a": np.zeros((1, 0)), "b": (ft.zeros((1, 2)), [np.array(["x"], object)])}
        k = len(tokens)
        said, sums, names = states["a"], states["b"][0], states["b"][1][0]
        assert said.shape[0] == sums.shape[0] == len(names) == k
        said = np.concatenate([said, tokens[:, None]], 1)
        sums = sums + ft.asarray(said[:, -1:].astype("f4"))
        np.testing.assert_allclose(np.asarray(sums)[:, 0], said.sum(1))
        names = np.array([n + str(t) for n, t in zip(names, tokens, strict=True)], object)
        assert [n[3:] for n in names] == ["".join(map(str, row[1:].astype(int))) for row in said]
        seen.append(k)
        scores = np.random.default_rng(len(seen)).normal(size=(k, 5))
        return ft.asarray(scores), {"a": said, "b": (sums, [names])}

    free(update, beam_size=6).decode()
    assert seen[0] == 1 and max(seen) > 3


def test_a_network_with_caches_decodes_as_without() -> None:
    ft.random.seed(1)
    network = GPT2(tokens=6, steps=8, size=8, heads=2, layers=2)
    network.embedding.weight.tensor = network.embedding.weight.tensor * 30.0
    network.eval()

    def logs(scores: Any) -> Any:
        return np.asarray(ft.log_softmax(scores[:, -1, :5], -1).detach())

    def cached(tokens: Any, caches: Any) -> Any:
        tokens = np.where(tokens < 0, 5, tokens)
        caches = network.caches() if caches is None else caches
        return logs(network(ft.asarray(tokens[:, None]), caches)), caches

    def whole(tokens: Any, said: Any) -> Any:
        tokens = np.where(tokens < 0, 5, tokens)[:, None]
        said = tokens if said is None else np.concatenate([said, tokens], 1)
        return logs(network(ft.asarray(said))), said

    one = free(cached, beam_size=7, max_output_length=6).decode()
    other = free(whole, beam_size=7, max_output_length=6).decode()
    assert [h.tokens for h in one] == [h.tokens for h in other] and len(one) == 7
    assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_a_search_goes_on_step_by_step() -> None:
    def update(tokens: Any, states: Any) -> Any:
        return np.array([[0.0, -1, -2, -3, -0.5]] * len(tokens)), states

    decoder = free(update, beam_size=3, max_output_length=4)
    with decoder.begin() as search:
        lengths = []
        while search.step():
            lengths.append(len(search.best().tokens))
        found = search.end()
    assert lengths == [1, 2, 3, 4]
    assert [h.tokens for h in found] == [h.tokens for h in decoder.decode()]
    with pytest.raises(TextError, match="this search is over"):
        search.step()
    assert decoder.decode(n_best=1)[0].tokens == (0, 0, 0, 0)


def test_words_come_with_the_steps_that_said_them() -> None:
    tokens, lexicon = Dictionary(["a", "b", "</s>"]), Lexicon({"ab": [["a", "b"]], "b": [["b"]]})

    def update(previous: Any, steps: Any) -> Any:
        steps = np.zeros(1, np.int64) if steps is None else steps
        said = [0, 1, 1, 2]
        return np.array(
            [np.where(np.arange(3) == said[s % 4], 0.0, -5.0) for s in steps]
        ), steps + 1

    best = LexiconSeq2SeqDecoder(lexicon, tokens, update).decode()[0]
    assert best.text == "ab b" and best.words == (0, 1) and best.tokens == (0, 1, 1, 2)
    assert [(s.text, s.start, s.end) for s in best.spans] == [("ab", 0, 2), ("b", 2, 3)]


Make = Callable[[Any, Any], Any]
WRONG: list[tuple[Make, str]] = [
    (lambda t, s: np.zeros((1, 5)), "gave ndarray: expected a tuple, scores and new states"),
    (lambda t, s: (np.zeros((1, 4)), None), r"shape \(1, 4\): expected 1 rows.*5 tokens"),
    (lambda t, s: (np.zeros((2, 5)), None), r"shape \(2, 5\): expected 1 rows"),
    (lambda t, s: (np.full((1, 5), np.nan), None), "token 0 in row 0 is nan: give log prob"),
    (lambda t, s: (np.full((1, 5), np.inf), None), "is inf"),
    (lambda t, s: ([["a"] * 5], None), "the scores are <U1"),
    (lambda t, s: ([[1], [1, 2]], None), "the scores are no array"),
    (lambda t, s: (np.zeros((1, 5)), np.zeros(3)), r"states have shape \(3,\) for 1 hypotheses"),
    (lambda t, s: (np.zeros((1, 5)), (np.zeros(1), np.zeros((0, 2)))), r"shape \(0, 2\) for 1"),
    (lambda t, s: (np.zeros((1, 5)), [1.5]), "states have a float: give arrays with a row"),
]


@pytest.mark.parametrize(("update", "message"), WRONG)
def test_wrong_answers_of_the_model_are_refused(update: Make, message: str) -> None:
    with pytest.raises(TextError, match=rf"\[LexiconFreeSeq2SeqDecoder.update\].*{message}"):
        free(update).decode()


def test_what_does_not_fit_is_refused() -> None:
    def update(tokens: Any, states: Any) -> Any:
        return np.zeros((len(tokens), 5)), states

    tokens, words = Dictionary(LETTERS), Dictionary(["ab"])
    with pytest.raises(TextError, match="beam_size is 0: give an int from 1"):
        free(update, beam_size=0)
    for length in (0, True, 2.5):
        with pytest.raises(TextError, match="max_output_length is"):
            free(update, max_output_length=length)
    with pytest.raises(TextError, match="eos '<eos>' is not in the dictionary"):
        LexiconFreeSeq2SeqDecoder(tokens, update, eos="<eos>")
    for eos in (5, -1, 1.5, None):
        with pytest.raises(TextError, match=f"eos is {eos}: tokens are 0 to 4"):
            LexiconFreeSeq2SeqDecoder(tokens, update, eos=eos)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="update is None: give a function"):
        LexiconFreeSeq2SeqDecoder(tokens, None)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="ZeroLM.scores.*gave 4 scores.*decoder has 5 tokens"):
        LexiconFreeSeq2SeqDecoder(tokens, update, ZeroLM(4)).decode()
    with pytest.raises(TextError, match="trie has 4 tokens, the dictionary 5"):
        LexiconSeq2SeqDecoder(Trie([[0]], [0], tokens=4), tokens, update, words=words)
    with pytest.raises(TextError, match="trie has words 0 to 1, the dictionary 1:"):
        LexiconSeq2SeqDecoder(Trie([[0], [1]], [0, 1], tokens=5), tokens, update, words=words)
    with pytest.raises(TextError, match="a Trie has numbers of words: give the dictionary as"):
        LexiconSeq2SeqDecoder(Trie([[0]], [0], tokens=5), tokens, update)
    with pytest.raises(TextError, match=r"states have shape \(0, 8\) for 1 hypotheses"):
        free(update).decode(np.zeros((0, 8)))
    with pytest.raises(TextError, match=r"emissions of shape \(0, 4\)"):
        per_hypothesis(lambda *_: ([], []), np.zeros((0, 4)))


@pytest.mark.parametrize("log_add", [False, True])
def test_spellings_of_one_word_merge(log_add: bool) -> None:
    tokens, lexicon = Dictionary(["a", "b", "</s>"]), Lexicon({"w": [["a"], ["b"]]})

    def update(previous: Any, states: Any) -> Any:
        return np.where(previous[:, None] < 0, np.log([0.6, 0.3, 0.1]), np.log([0, 0, 1.0])), states

    with np.errstate(divide="ignore"):
        options = DecoderOptions(log_add=log_add)
        decoder = LexiconSeq2SeqDecoder(lexicon, tokens, update, None, options)
        found = [h for h in decoder.decode() if h.words]
    assert [h.tokens for h in found] == [(0, 2)]
    assert found[0].score == pytest.approx(math.log(0.9 if log_add else 0.6))


def test_what_the_language_model_excludes_is_left_out_unless_it_has_no_weight() -> None:
    class Never(ZeroLM):
        """No sequence has a "b"."""

        def scores(self, states: Any) -> Any:
            rows = super().scores(states)
            rows[:, 1] = -np.inf
            return rows

    def update(tokens: Any, states: Any) -> Any:
        return np.zeros((len(tokens), 5)), states

    def said(weight: float) -> set[int]:
        options = DecoderOptions(lm_weight=weight)
        decoder = LexiconFreeSeq2SeqDecoder(
            Dictionary(LETTERS), update, Never(5), options, max_output_length=1
        )
        return {h.tokens[0] for h in decoder.decode()}

    assert said(1.0) == said(-1.0) == {0, 2, 3, 4}
    assert said(0.0) == {0, 1, 2, 3, 4}


def test_nothing_is_found_where_nothing_is_possible() -> None:
    assert free(lambda t, s: (np.full((len(t), 5), -np.inf), None)).decode() == []


def test_cases_are_of_all_kinds(tmp_path: Path) -> None:
    cases: list[Seq2SeqCase] = [random_case(seed, tmp_path) for seed in range(40)]
    assert {case.trie is None for case in cases} == {True, False}
    assert {case.token_lm for case in cases if case.trie} == {True, False}
    assert {case.arpa is None for case in cases} == {True, False}
    assert {case.options.log_add for case in cases} == {True, False}
