"""RNN-T beam search against sums over all alignments."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoder_cases import write_arpa

import fl_tensor as ft
from fl_text import Dictionary, TextError
from fl_text.decoder import DecoderOptions, TransducerDecoder
from fl_text.ngram import NGramModel

LETTERS = ["#", "a", "b", "c"]
WIDE: Any = {"beam_size": 10**6, "beam_threshold": 1e9}
STATES = 101


class Networks:
    """A random transducer. The prediction network's state is a number of the labels so far."""

    def __init__(self, seed: int, frames: int, tokens: int = 4, scale: float = 1.5) -> None:
        random = np.random.default_rng(seed)
        logits = random.normal(size=(frames, STATES, tokens)) * scale
        self.table = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        self.encoded = np.arange(frames, dtype=np.float32)[:, None]
        self.joint_rows: list[int] = []

    def after(self, state: Any, token: Any) -> Any:
        return (state * 37 + token * 59 + 11) % STATES

    def predict(self, tokens: Any, states: Any) -> Any:
        states = np.zeros(1, np.int64) if states is None else states
        new = self.after(states, tokens)
        return new, new

    def joint(self, frame: Any, outputs: Any) -> Any:
        self.joint_rows.append(len(outputs))
        return self.table[int(frame[0]), outputs]

    def decoder(self, lm: Any = None, max_symbols: int = 2, **options: Any) -> TransducerDecoder:
        return TransducerDecoder(
            Dictionary(LETTERS),
            self.predict,
            self.joint,
            lm,
            DecoderOptions(**(options or WIDE)),
            max_symbols=max_symbols,
        )

    def every(self, max_symbols: int) -> dict[tuple[int, ...], float]:
        """The probability of each sequence: the sum over its alignments."""
        found: dict[tuple[int, ...], float] = defaultdict(float)

        def follow(frame: int, said: int, labels: tuple[int, ...], state: int, p: float) -> None:
            if frame == len(self.table):
                found[labels] += p
                return
            row = np.exp(self.table[frame, state])
            follow(frame + 1, 0, labels, state, p * row[0])
            if said < max_symbols:
                for token in range(1, len(row)):
                    new = int(self.after(state, token))
                    follow(frame, said + 1, (*labels, token), new, p * row[token])

        follow(0, 0, (), int(self.after(0, -1)), 1.0)
        return found


@pytest.mark.parametrize(("frames", "max_symbols"), [(1, 1), (1, 3), (3, 1), (3, 2), (4, 1)])
def test_a_wide_beam_sums_over_all_alignments(frames: int, max_symbols: int) -> None:
    networks = Networks(frames, frames)
    found = networks.decoder(max_symbols=max_symbols).decode(networks.encoded)
    wanted = networks.every(max_symbols)
    assert {h.tokens for h in found} == wanted.keys()
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for h in found:
        assert h.score == pytest.approx(math.log(wanted[h.tokens]), abs=1e-9)
        assert h.emitting_score == h.score and h.lm_score == 0 and h.words == ()
    assert sum(h.confidence for h in found) == pytest.approx(1)


def test_a_language_model_scores_labels_and_the_end(tmp_path: Path) -> None:
    networks = Networks(5, 2)
    write_arpa(tmp_path / "lm.arpa", LETTERS[1:], np.random.default_rng(0))
    lm = NGramModel.from_arpa(tmp_path / "lm.arpa")
    found = networks.decoder(lm, **WIDE, lm_weight=0.7).decode(networks.encoded)
    wanted = networks.every(2)
    assert {h.tokens for h in found} == wanted.keys()
    for h in found:
        sentence = " ".join(LETTERS[token] for token in h.tokens)
        assert h.lm_score == pytest.approx(lm.score(sentence), abs=1e-4)
        assert h.score == pytest.approx(math.log(wanted[h.tokens]) + 0.7 * h.lm_score, abs=1e-4)


def test_a_narrow_beam_finds_the_best_of_a_peaky_model() -> None:
    networks = Networks(2, 4, scale=4.0)
    wanted = networks.every(2)
    best = networks.decoder(max_symbols=2, beam_size=20).decode(networks.encoded)
    narrow = networks.decoder(max_symbols=2, beam_size=6).decode(networks.encoded)
    assert len(best) == 20 and len(narrow) == 6
    assert narrow[0].tokens == best[0].tokens == max(wanted, key=lambda tokens: wanted[tokens])
    assert all(h.score <= math.log(wanted[h.tokens]) + 1e-9 for h in [*best, *narrow])
    few = networks.decoder(max_symbols=1, **WIDE, beam_size_token=1)
    assert 1 < len(few.decode(networks.encoded)) < len(networks.every(1))
    close = networks.decoder(max_symbols=2, beam_size=20, beam_threshold=0.5)
    assert len(close.decode(networks.encoded)) < len(best)


def test_networks_are_called_for_all_hypotheses_at_once() -> None:
    networks = Networks(1, 6)
    networks.decoder(max_symbols=3, beam_size=5).decode(networks.encoded)
    assert len(networks.joint_rows) <= 6 * 4 and max(networks.joint_rows) == 5


def test_a_sequence_that_left_the_beam_and_comes_back_is_merged() -> None:
    """With a beam that drops beginnings of what it keeps, each sequence is still there once."""
    for seed in range(30):
        networks = Networks(seed, 6, scale=3.0)
        found = networks.decoder(max_symbols=3, beam_size=4).decode(networks.encoded)
        assert len({h.tokens for h in found}) == len(found)


def test_greedy_search_takes_the_likeliest_token() -> None:
    networks = Networks(7, 5)
    found = networks.decoder(max_symbols=2).greedy(networks.encoded)
    labels, frames, total, state = [], [], 0.0, int(networks.after(0, -1))
    for frame, table in enumerate(networks.table):
        for _ in range(2):
            if (token := int(table[state].argmax())) == 0:
                break
            total += table[state, token]
            labels.append(token)
            frames.append(frame)
            state = int(networks.after(state, token))
        total += table[state, 0]
    assert found.tokens == tuple(labels) and labels
    assert found.score == pytest.approx(total)
    assert [span.start for span in found.spans] == frames


def test_text_and_times_of_labels() -> None:
    networks = Networks(0, 4)
    networks.table[:] = -9.0
    networks.table[:, :, 0] = -1.0  # blanks, but for frames 1 and 3 with one label each
    first = networks.after(0, -1)
    second = networks.after(first, 2)
    for frame, state, token in ((1, first, 2), (3, second, 1)):
        networks.table[frame, state, [0, token]] = -9.0, -0.01
    best = networks.decoder(beam_size=10).decode(networks.encoded)[0]
    assert best.text == "ba"
    assert [(s.text, s.start, s.end) for s in best.spans] == [("b", 1, 2), ("a", 3, 4)]


def test_frames_may_come_in_pieces() -> None:
    networks = Networks(9, 7)
    decoder = networks.decoder(max_symbols=2, beam_size=6)
    whole = decoder.decode(networks.encoded)
    with decoder.begin() as stream:
        for piece in (slice(0, 0), slice(0, 3), slice(3, 4), slice(4, 7)):
            stream.step(networks.encoded[piece])
            assert stream.best() is not None
        found = stream.end()
    assert [(h.tokens, h.score, h.spans) for h in found] == [
        (h.tokens, h.score, h.spans) for h in whole
    ]
    with pytest.raises(TextError, match="this search is over"):
        stream.step(networks.encoded)
    assert len(decoder.decode(networks.encoded, n_best=2)) == 2


def test_networks_of_tensors() -> None:
    networks = Networks(4, 3)

    class OfTensors(Networks):
        def predict(self, tokens: Any, states: Any) -> Any:
            states = None if states is None else np.asarray(states[0])
            new = ft.asarray(networks.predict(tokens, states)[0])
            return {"x": new}, (new,)

        def joint(self, frame: Any, outputs: Any) -> Any:
            assert isinstance(frame, ft.Tensor)
            return ft.asarray(networks.joint(np.asarray(frame), np.asarray(outputs["x"])))

    other = OfTensors(4, 3)
    found = other.decoder(max_symbols=1).decode(ft.asarray(networks.encoded))
    wanted = networks.decoder(max_symbols=1).decode(networks.encoded)
    assert [h.tokens for h in found] == [h.tokens for h in wanted]


def test_nothing_is_found_where_nothing_is_possible() -> None:
    networks = Networks(0, 2)
    networks.table[:] = -np.inf
    assert networks.decoder().decode(networks.encoded) == []


def test_what_does_not_fit_is_refused() -> None:
    networks = Networks(0, 2)
    decoder = networks.decoder()
    with pytest.raises(TextError, match=r"encoded has shape \(0, 1\).*at least one frame"):
        decoder.decode(networks.encoded[:0])
    with pytest.raises(TextError, match="encoded has shape"):
        decoder.greedy(networks.encoded[:0])
    with pytest.raises(TextError, match="encoded is a list"):
        decoder.decode([[0.0]])
    with pytest.raises(TextError, match="beam_size is 0"):
        networks.decoder(beam_size=0)
    for symbols in (0, 1.5, True):
        with pytest.raises(TextError, match="max_symbols is"):
            networks.decoder(max_symbols=symbols)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="blank '#' is not in the dictionary"):
        TransducerDecoder(Dictionary(["a", "b"]), networks.predict, networks.joint)
    with pytest.raises(TextError, match="a dictionary of 1 tokens"):
        TransducerDecoder(Dictionary(["#"]), networks.predict, networks.joint)
    with pytest.raises(TextError, match="joint is None: give a function"):
        TransducerDecoder(Dictionary(LETTERS), networks.predict, None)  # type: ignore[arg-type]
    networks.table = networks.table[:, :, :3]
    with pytest.raises(TextError, match=r"\[TransducerDecoder.joint\].*\(1, 3\).*4 tokens"):
        decoder.decode(networks.encoded)
    networks.table = np.full((2, STATES, 4), np.nan)
    with pytest.raises(TextError, match=r"\[TransducerDecoder.joint\] the score of token 0.*nan"):
        decoder.decode(networks.encoded)
    networks = Networks(0, 2)
    networks.predict = lambda tokens, states: (None, None)  # type: ignore[method-assign]
    with pytest.raises(TextError, match=r"\[TransducerDecoder.predict\] the outputs are None"):
        networks.decoder().decode(networks.encoded)
    networks.predict = lambda tokens, states: (np.zeros(3), None)  # type: ignore[method-assign]
    with pytest.raises(TextError, match=r"\[TransducerDecoder.predict\] states have shape \(3,\)"):
        networks.decoder().decode(networks.encoded)
