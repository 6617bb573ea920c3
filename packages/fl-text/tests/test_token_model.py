"""GPT-2 as language model of decoders: caches that branch, and memory that follows the beam."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_text import Dictionary, TextError
from fl_text.decoder import DecoderOptions, LexiconFreeSeq2SeqDecoder, TransducerDecoder
from fl_text.language_model import CheckedLM, LanguageModel
from fl_text.models import GPT2
from fl_text.token_model import TokenModel

VOCABULARY, BOS, EOS = 11, 9, 10


@pytest.fixture(scope="module")
def network() -> GPT2:
    ft.random.seed(3)
    network = GPT2(tokens=VOCABULARY, steps=16, size=8, heads=2, layers=2)
    network.embedding.weight.tensor = network.embedding.weight.tensor * 50.0
    network.eval()
    return network


def whole(network: GPT2, tokens: list[int]) -> Any:
    """log p of each token after the whole sequence, without a cache."""
    scores = network(ft.asarray([[BOS, *tokens]], ft.int64))
    return np.asarray(ft.log_softmax(scores, -1).detach())[0, -1]  # type: ignore[attr-defined]


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_branching_caches_score_as_whole_sequences_do(network: GPT2) -> None:
    lm = CheckedLM(TokenModel(network, BOS, EOS), VOCABULARY)
    random = np.random.default_rng(5)
    sequences: dict[int, list[int]] = {lm.start(): []}
    for _ in range(8):
        # Parents of different lengths, some of them twice, with tokens of their own.
        parents = random.choice(list(sequences), 6)
        tokens = random.integers(0, VOCABULARY, 6)
        states = lm.extend(parents, tokens)
        new = {
            state: [*sequences[parent], token]
            for state, parent, token in zip(
                states.tolist(), parents.tolist(), tokens.tolist(), strict=True
            )
        }
        rows, ends = lm.scores(states), lm.finish(states)
        for k, tokens_so_far in enumerate(new.values()):
            expected = whole(network, tokens_so_far)
            np.testing.assert_allclose(rows[k], expected, atol=1e-5)
            assert ends[k] == rows[k, EOS]
        sequences |= new
        gone = random.choice(list(sequences), len(sequences) // 2, replace=False)
        lm.release(gone)
        for state in gone.tolist():
            del sequences[state]
        if not sequences:
            sequences = {lm.start(): []}
    assert len({len(tokens) for tokens in sequences.values()}) > 1


def test_caches_hold_the_beam_and_no_more(network: GPT2) -> None:
    lm = TokenModel(network, BOS)
    random = np.random.default_rng(1)
    beam = ints(lm.start())
    for _ in range(12):
        found = lm.extend(np.repeat(beam, 5), random.integers(0, VOCABULARY, 5 * len(beam)))
        lm.release(beam)
        kept = random.choice(len(found), min(4, len(found)), replace=False)
        beam = found[kept]
        lm.release(np.delete(found, kept))
        assert lm.cached_rows <= 2 * len(beam)
    lm.release(beam)
    assert lm.cached_rows == 0


def test_the_network_runs_once_for_states_of_equal_length(network: GPT2) -> None:
    calls: list[int] = []

    class Counted(GPT2):
        def forward(self, tokens: Any, caches: Any = None) -> Any:
            calls.append(tokens.shape[0])
            return super().forward(tokens, caches)

    counted = Counted(tokens=VOCABULARY, steps=16, size=8, heads=2, layers=1)
    counted.eval()
    lm = TokenModel(counted, BOS)
    first = lm.extend(np.repeat(lm.start(), 3), ints(0, 1, 2))
    second = lm.extend(first[[2, 0]], ints(1, 1))
    calls.clear()
    lm.extend(np.append(second, first[1:]), ints(0, 1, 2, 3))
    assert sorted(calls) == [2, 2]


def test_it_is_a_language_model(network: GPT2) -> None:
    lm = TokenModel(network, BOS)
    assert isinstance(lm, LanguageModel)
    none = lm.extend(ints(), ints())
    assert none.shape == (0,) and lm.scores(none).shape == (0, VOCABULARY)
    assert not lm.finish(ints(lm.start())).any()


def test_a_decoder_may_have_other_numbers_for_the_tokens(network: GPT2) -> None:
    lm, plain = TokenModel(network, BOS, EOS, tokens=[3, 1, 7]), TokenModel(network, BOS, EOS)
    one = lm.extend(ints(lm.start()), ints(2))
    other = plain.extend(ints(plain.start()), ints(7))
    assert (lm.scores(one) == plain.scores(other)[:, [3, 1, 7]]).all()
    assert lm.finish(one) == plain.finish(other)
    with pytest.raises(TextError, match="tokens=11: the network has 0 to 10"):
        TokenModel(network, BOS, tokens=[0, VOCABULARY])
    with pytest.raises(TextError, match="token 3: there are 0 to 2"):
        lm.extend(one, ints(3))


def total(network: GPT2, tokens: list[int]) -> float:
    """log p of a sequence that ends with EOS, or was cut, without a cache."""
    rows = [whole(network, tokens[:k])[token] for k, token in enumerate(tokens)]
    return float(sum(rows))


def test_decoders_ask_for_whole_sequences_and_release_all(network: GPT2) -> None:
    lm = TokenModel(network, BOS, EOS)
    names = Dictionary([f"t{k}" for k in range(VOCABULARY)])
    options = DecoderOptions(beam_size=6, lm_weight=1.3)
    held: list[int] = []

    def update(tokens: Any, states: Any) -> Any:
        held.append(lm.cached_rows)
        return np.tile(np.linspace(0, -1, VOCABULARY), (len(tokens), 1)), states

    found = LexiconFreeSeq2SeqDecoder(
        names, update, lm, options, eos=EOS, max_output_length=7
    ).decode()
    assert len(found) == 6 and max(held) <= 2 * 6 and lm.cached_rows == 0
    for h in found:
        assert h.lm_score == pytest.approx(total(network, list(h.tokens)) / np.log(10), abs=1e-4)

    def predict(tokens: Any, states: Any) -> Any:
        return np.zeros((len(tokens), 1)), None

    def joint(frame: Any, outputs: Any) -> Any:
        held.append(lm.cached_rows)
        return np.tile(np.linspace(0, -1, VOCABULARY), (len(outputs), 1))

    held.clear()
    found = TransducerDecoder(names, predict, joint, lm, options, blank=BOS, max_symbols=2).decode(
        np.zeros((4, 1))
    )
    assert len(found) == 6 and lm.cached_rows == 0
    assert max(held) <= 2 * 6 * 3, "in a frame, hypotheses with 0 to 2 more labels"
    for h in found:
        expected = total(network, [*h.tokens, EOS]) / np.log(10)
        assert h.lm_score == pytest.approx(expected, abs=1e-4)


def test_what_does_not_fit_is_refused(network: GPT2) -> None:
    with pytest.raises(TextError, match="a str is no causal network: give one"):
        TokenModel("gpt2", 0)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="training mode: call its eval"):
        TokenModel(GPT2(tokens=5, steps=4, size=4, heads=1, layers=1), 0)
    with pytest.raises(TextError, match="end=11: the network has 0 to 10"):
        TokenModel(network, BOS, end=VOCABULARY)
    lm = TokenModel(network, BOS)
    with pytest.raises(TextError, match="start=-1 is no token of the network"):
        TokenModel(network, -1)
    state = ints(lm.start())
    with pytest.raises(TextError, match="token 11: there are 0 to 10"):
        lm.extend(state, ints(11))
    for _ in range(15):
        state = lm.extend(state, ints(0))
    with pytest.raises(TextError, match="does not take a sequence of 17 tokens"):
        lm.extend(state, ints(0))
    lm.release(state)
    with pytest.raises(TextError, match=r"state \d+ is unknown, or released already"):
        lm.scores(state)
