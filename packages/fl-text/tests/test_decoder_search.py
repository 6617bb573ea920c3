"""The search against one without cuts, and what follows from its definition."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from decoder_cases import Case, differences, random_case, write_arpa
from decoder_reference import Reference

from fl_text.decoder import DecoderOptions, LexiconDecoder, LexiconFreeDecoder, Trie
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError
from fl_text.language_model import NGramLM
from fl_text.ngram import NGramModel

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")

CASES = int(os.environ.get("FL_DECODER_CASES", "30"))
STREAMS = int(os.environ.get("FL_DECODER_STREAMS", "20"))
LETTERS = Dictionary(["|", "a", "b", "#"])


def reference(case: Case, **more: object) -> Reference:
    model = {}
    if case.arpa is not None:
        lm = NGramModel.from_arpa(case.arpa)
        names = case.tokens if case.is_free or case.token_lm else case.words
        model = {"model": lambda history, word: _score(lm, names, history, word)}
    return Reference(
        case.options,
        silence=0,
        blank=len(case.tokens) - 1,
        lexicon=None if case.is_free else case.lexicon,
        smearing=case.smearing,
        unknown=len(case.words) - 1,
        transitions=case.transitions,
        token_lm=case.token_lm,
        **model,
        **more,
    )


def _score(lm: NGramModel, names: list[str], history: tuple[int, ...], word: int | None) -> float:
    said = lm.indices([names[k] for k in history])
    state = np.array([lm.start], np.int32)
    for k in range(len(said)):
        _, state = lm.score_words(state, said[k : k + 1])
    last = lm.indices(["</s>" if word is None else names[word]])
    return float(lm.score_words(state, last)[0][0])


# Beside the first cases, two of rare merges with log_add near the threshold.
@pytest.mark.parametrize("seed", [*range(CASES), 68, 154])
def test_the_n_best_list_is_that_of_a_search_without_cuts(seed: int, tmp_path: Path) -> None:
    case = random_case(seed, tmp_path, small=True)
    found = case.decoder().decode(case.emissions)
    wanted = reference(case).decode(case.emissions)
    assert differences(found, [(f.score, f.words, f.tokens) for f in wanted]) == ""
    if found:
        assert found[0].emitting_score == pytest.approx(wanted[0].emitting, abs=1e-4)
        assert found[0].lm_score == pytest.approx(wanted[0].lm, abs=1e-4)


def same(found: list, wanted: list) -> None:
    """Two n-best lists of ours are equal, bit for bit."""
    assert [(h.score, h.words, h.tokens) for h in found] == [
        (h.score, h.words, h.tokens) for h in wanted
    ]


@pytest.mark.parametrize("seed", range(STREAMS))
def test_a_stream_in_pieces_with_prune_is_decode(seed: int, tmp_path: Path) -> None:
    case = random_case(1000 + seed, tmp_path, small=True)
    rng = np.random.default_rng(seed)
    decoder = case.decoder()
    stream, settled, tokens = decoder.begin(), (), ()
    frames = np.concatenate([case.emissions] * 3)
    wanted = decoder.decode(frames)
    while len(frames):
        size = int(rng.integers(0, 4))
        stream.step(frames[:size])
        frames = frames[size:]
        if rng.integers(2) and (done := stream.prune()) is not None:
            assert done.spans == () or done.spans[0].start >= len(tokens)
            settled, tokens = settled + tuple(done.words), tokens + tuple(done.tokens)
        best = stream.best()
        assert best is None or len(tokens) + len(best.tokens) == 3 * len(case.emissions) - len(
            frames
        )
    found = stream.end()
    assert [h.score for h in found] == [h.score for h in wanted]
    assert [settled + tuple(h.words) for h in found] == [h.words for h in wanted]
    assert [tokens + tuple(h.tokens) for h in found] == [h.tokens for h in wanted]
    spans = [span for h in found[:1] for span in h.spans]
    assert [span[:4] for span in spans] == [
        span[:4] for h in wanted[:1] for span in h.spans if span.start >= len(tokens)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_any_language_model_gives_what_the_n_gram_tables_give(seed: int, tmp_path: Path) -> None:
    case = random_case(2000 + seed, tmp_path, small=True)
    if case.arpa is None:
        case.arpa = tmp_path / "lm.arpa"
        names = case.tokens if case.is_free or case.token_lm else case.words[:-1]
        write_arpa(case.arpa, names, np.random.default_rng(seed))
        case.options = replace(case.options, lm_weight=1.5)
    names = case.tokens if case.is_free or case.token_lm else case.words
    model = Counting(NGramLM(NGramModel.from_arpa(case.arpa), names))
    by_rows = case.decoder(lm=model)
    stream = by_rows.begin()
    stream.step(case.emissions)
    assert model.held <= case.options.beam_size, "states of lost hypotheses are released"
    stream.prune(look_back=2)
    stream.step(case.emissions)
    stream.end()
    wanted = as_tuples(case.decoder().decode(case.emissions))
    assert differences(by_rows.decode(case.emissions), wanted) == ""
    assert model.held == 0, "every state is released"
    assert model.calls <= 3 * len(case.emissions) + 2, "one call a frame"


class Counting:
    """A language model that counts its states: each gets a number of its own."""

    def __init__(self, model: NGramLM) -> None:
        self.model, self.states, self.next, self.calls = model, {}, 100, 0

    @property
    def held(self) -> int:
        return len(self.states)

    def _new(self, states: np.ndarray) -> np.ndarray:
        first, self.next = self.next, self.next + len(states)
        self.states.update(zip(range(first, self.next), states.tolist(), strict=True))
        return np.arange(first, self.next)

    def _own(self, states: np.ndarray) -> np.ndarray:
        return np.array([self.states[k] for k in states.tolist()], np.int64)

    def start(self) -> int:
        return int(self._new(np.array([self.model.start()]))[0])

    def extend(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return self._new(self.model.extend(self._own(states), tokens))

    def scores(self, states: np.ndarray) -> np.ndarray:
        self.calls += 1
        return self.model.scores(self._own(states))

    def finish(self, states: np.ndarray) -> np.ndarray:
        return self.model.finish(self._own(states))

    def release(self, states: np.ndarray) -> None:
        for k in states.tolist():
            del self.states[k]


def as_tuples(hypotheses: list) -> list[tuple]:
    return [(h.score, h.words, h.tokens) for h in hypotheses]


def paths(tokens: int, frames: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(tokens), repeat=frames))


def test_log_add_gives_the_probability_of_each_text() -> None:
    rng = np.random.default_rng(3)
    emissions = np.log(rng.dirichlet(np.ones(4), size=4)).astype(np.float32)
    options = DecoderOptions(beam_size=5000, beam_threshold=1e9, log_add=True)
    found = LexiconFreeDecoder(LETTERS, None, options).decode(emissions)
    wanted: dict[tuple[int, ...], float] = {}
    for path in paths(4, 4):
        text, last = [], 0  # an utterance begins in silence
        for token in path:
            if token not in (last, 3):
                text.append(token)
            last = token
        score = float(sum(emissions[t, token] for t, token in enumerate(path)))
        wanted[tuple(text)] = np.logaddexp(wanted.get(tuple(text), -math.inf), score)
    assert len(found) == len(wanted)
    total = sum(math.exp(score) for score in wanted.values())
    assert total == pytest.approx(1, abs=1e-5)
    assert sum(h.confidence for h in found) == pytest.approx(1, abs=1e-9)
    for h in found:
        text = tuple(span.label for span in h.spans)
        assert h.score == pytest.approx(wanted[text], abs=1e-5)
        assert h.confidence == pytest.approx(math.exp(wanted[text]), abs=1e-5)


def test_ties_at_the_end_of_the_beam_do_not_cost_the_best() -> None:
    tokens, words = Dictionary(["|", "a", "b", "c", "#"]), Dictionary(["a", "b", "c"])
    trie = Trie([(1,), (2,), (3,)], [0, 1, 2], tokens=5)
    emissions = np.array([[-9, -5, -5, -1, -9]], np.float32)
    for beam in (1, 2):
        options = DecoderOptions(beam_size=beam)
        found = LexiconDecoder(trie, tokens, None, options, words=words).decode(emissions)
        assert (len(found), found[0].text) == (beam, "c")


def test_a_boost_is_added_wherever_the_word_is_completed() -> None:
    rng = np.random.default_rng(5)
    emissions = rng.normal(size=(9, 4)).astype(np.float32)
    trie = Trie([(1, 0), (2, 0), (1, 2, 0)], [0, 1, 2], tokens=4)
    words = Dictionary(["a", "b", "ab"])
    options = DecoderOptions(beam_size=100_000, beam_threshold=1e9, word_score=0.3)
    plain = LexiconDecoder(trie, LETTERS, None, options, words=words).decode(emissions)
    boosted = LexiconDecoder(
        trie, LETTERS, None, options, words=words, hot_words={"ab": 2.5, "b": -1.0}
    ).decode(emissions)
    assert len(plain) == len(boosted) > 20
    wanted = {h.words: h.score + 2.5 * h.words.count(2) - h.words.count(1) for h in plain}
    for h in boosted:
        assert h.score == pytest.approx(wanted[h.words], abs=1e-9)
    assert boosted[0].words.count(2) > plain[0].words.count(2)


def test_tables_grow_while_a_search_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for seed in range(4):
        case = random_case(3000 + seed, tmp_path, small=True)
        frames = np.concatenate([case.emissions] * 4)
        wanted = case.decoder().decode(frames)
        with monkeypatch.context() as patch:
            patch.setattr("fl_text.decoder.tables._FIRST_SIZE", 8)
            same(case.decoder().decode(frames), wanted)


def test_a_batch_is_decoded_in_threads(tmp_path: Path) -> None:
    case = random_case(4000, tmp_path, small=True)
    decoder = case.decoder()
    rng = np.random.default_rng(0)
    utterances = rng.normal(size=(5, 6, len(case.tokens))).astype(np.float32)
    lengths = [6, 0, 3, 5, 1]
    found = decoder.decode_batch(utterances, lengths, n_best=3, threads=3)
    for k, length in enumerate(lengths):
        same(found[k], decoder.decode(utterances[k, :length], n_best=3))
    with pytest.raises(TextError, match=r"length 1 is 7, but the utterance has 6 frames"):
        decoder.decode_batch(utterances, [6, 7, 3, 5, 1])
    with pytest.raises(TextError, match="5 utterances, but 2 lengths"):
        decoder.decode_batch(utterances, [6, 6])


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected as on Linux")
@pytest.mark.parametrize("side", ["before", "behind"])
def test_compiled_kernels_stay_inside_their_arrays(side: str) -> None:
    pytest.importorskip("fl_jit")
    script = Path(__file__).with_name("guarded_decoders.py")
    count = os.environ.get("FL_DECODER_GUARDED", "6")
    done = subprocess.run([sys.executable, script, count, side], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
