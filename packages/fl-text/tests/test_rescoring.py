"""Log-probabilities of sequences, as for the rescoring of n-best lists."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_text import TextError
from fl_text.heads import AdaptiveSoftMax, SampledSoftmax
from fl_text.models import GCNN, GPT2, LSTMLanguageModel, TransformerLanguageModel
from fl_text.rescoring import sequence_log_probs

TOKENS, BOS, EOS = 9, 7, 8
NETWORKS = {
    "lstm": lambda: LSTMLanguageModel(TOKENS, 6),
    "gcnn": lambda: GCNN(TOKENS, 5, [[(6, 3)]], cutoffs=[3, 6]),
    "transformer": lambda: TransformerLanguageModel(TOKENS, 8, 2, 1, 8, cutoffs=[3]),
    "gpt2": lambda: GPT2(TOKENS, 6, 8, 2, 1),
    "sampled": lambda: LSTMLanguageModel(TOKENS, 6, head=SampledSoftmax(6, TOKENS, 3)),
    "adaptive": lambda: LSTMLanguageModel(TOKENS, 6, head=AdaptiveSoftMax(6, TOKENS, [4])),
}
SEQUENCES = [[1, 2, 3], [4], [], [3, 2, 1], [0, 0, 0, 0], [5]]


def one_by_one(network, sequence):
    total = 0.0
    for k, token in enumerate(sequence):
        scores = network(ft.asarray([[BOS, *sequence[:k]]], ft.int64))
        total += ft.log_softmax(scores, -1)[0, -1, token].item()
    return total


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("end", [None, EOS])
def test_each_sequence_has_the_log_probability_of_its_tokens(name, end):
    ft.seed(2)
    network = NETWORKS[name]()
    found = sequence_log_probs(network, SEQUENCES, BOS, end, batch_tokens=6)
    assert network.training, "as it was"
    network.eval()
    whole = [row if end is None else [*row, end] for row in SEQUENCES]
    wanted = [one_by_one(network, row) for row in whole]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_sequences_of_equal_length_run_together():
    calls = []

    class Counted(GPT2):
        def hidden(self, tokens, caches=None):
            calls.append(tokens.shape)
            return super().hidden(tokens, caches)

    network = Counted(TOKENS, 6, 8, 2, 1).eval()
    sequence_log_probs(network, SEQUENCES, BOS, batch_tokens=3)
    assert calls == [(2, 1), (1, 3), (1, 3), (1, 4)]


def test_what_does_not_fit_is_refused():
    network = GPT2(TOKENS, 4, 8, 2, 1).eval()
    with pytest.raises(TextError, match=r"sequence 1: token 9: the network has 0 to 8"):
        sequence_log_probs(network, [[1], [9]], BOS)
    with pytest.raises(TextError, match="start 12: the network has 0 to 8"):
        sequence_log_probs(network, [[1]], 12)
    with pytest.raises(TextError, match="token 1.5: the network"):
        sequence_log_probs(network, [[1.5]], BOS)
    with pytest.raises(TextError, match=r"a str has no hidden\(\) and head"):
        sequence_log_probs("gpt2", [[1]], BOS)
    with pytest.raises(TextError, match="batch_tokens=0: give a whole number"):
        sequence_log_probs(network, [[1]], BOS, batch_tokens=0)
    with pytest.raises(ft.ShapeError, match="4 positions"):
        sequence_log_probs(network, [[1] * 5], BOS)
    assert sequence_log_probs(network, [], BOS) == []
