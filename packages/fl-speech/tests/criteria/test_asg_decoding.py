"""ASG beside the rest: decoders of fl-text, repetition labels, and CTC."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from asg_reference import summed

import fl_tensor as ft
import fl_text as text
from fl_speech.criteria import asg_loss, ctc_loss, forced_path, viterbi_path
from fl_text.decoder import DecoderOptions, LexiconDecoder, LexiconFreeDecoder

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")

TOKENS = ["|", "a", "b", "c", "#"]
OPTIONS = DecoderOptions(beam_size=1000, beam_threshold=1e6, criterion="asg")


def problem(seed: int, frames: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Emissions (T, N) and transitions. The last token is a blank, which ASG does not need."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(frames, len(TOKENS))).astype(np.float32) * 2
    x[:, -1] = -1e4
    return x, rng.normal(size=(len(TOKENS),) * 2).astype(np.float32)


def score(x: np.ndarray, transitions: np.ndarray, path: np.ndarray) -> float:
    return summed(x.astype(np.float64), transitions.astype(np.float64), [path.tolist()]).score


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spelled", [False, True], ids=["free", "lexicon"])
def test_the_best_hypothesis_without_a_model_is_the_viterbi_path(seed: int, spelled: bool) -> None:
    x, transitions = problem(seed)
    tokens = text.Dictionary(TOKENS)
    if spelled:  # a word ends with its last token: after it only silence lasts
        transitions[range(1, 5), range(1, 5)] = -1e4
        words = text.Lexicon({name: [[name]] for name in TOKENS[1:]})
        decoder = LexiconDecoder(words, tokens, options=OPTIONS, transitions=transitions)
    else:
        decoder = LexiconFreeDecoder(tokens, options=OPTIONS, transitions=transitions)
    path = viterbi_path(ft.asarray(x[None]), ft.asarray(transitions))[0]
    best = decoder.decode(x)[0]
    assert list(best.tokens) == path.tolist()
    assert best.score == pytest.approx(score(x, transitions, path), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_a_lexicon_of_one_word_gives_the_forced_path(seed: int) -> None:
    x, transitions = problem(seed, frames=7)  # too few for a second word
    x[0, 0] = -1e4  # no silence before it
    path = forced_path(ft.asarray(x[None]), [[1, 3, 2, 0]], ft.asarray(transitions))[0]
    words = text.Lexicon({"acb": [["a", "c", "b", "|"]]})
    tokens = text.Dictionary(TOKENS)
    decoder = LexiconDecoder(words, tokens, options=OPTIONS, transitions=transitions)
    best = decoder.decode(x)[0]
    assert list(best.tokens) == path.tolist()
    assert best.score == pytest.approx(score(x, transitions, path), rel=1e-5)


def test_repetition_labels_bring_back_what_merging_loses() -> None:
    letters = text.Dictionary(["h", "e", "l", "o", "<1>"])
    spelling = letters.map_entries_to_indices("hello")
    target = text.pack_replabels(spelling, letters, 1)
    x = np.random.default_rng(0).normal(size=(1, 9, 5))
    path = forced_path(ft.asarray(x), [target], ft.zeros((5, 5), ft.float64))[0]
    merged = [label for label, _ in itertools.groupby(path.tolist())]
    assert merged == target
    assert text.unpack_replabels(merged, letters, 1) == spelling


@pytest.mark.parametrize("seed", range(5))
def test_with_equal_transitions_it_is_ctc_without_a_blank(seed: int) -> None:
    """Equal transitions cancel; a blank of probability 0 leaves the paths of ASG."""
    rng = np.random.default_rng(seed)
    x, targets = rng.normal(size=(2, 5, 4)) * 2, [[0, 2, 1], [1, 0, -1]]
    x[:, :, -1] = -math.inf
    loss = asg_loss(ft.asarray(x[:, :, :-1]), targets, ft.full((3, 3), 0.7, ft.float64), [5, 4])
    assert loss.item() == pytest.approx(ctc_loss(ft.asarray(x), targets, [5, 4]).item(), rel=1e-12)
