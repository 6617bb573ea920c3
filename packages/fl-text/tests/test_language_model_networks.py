"""LSTM, gated-convolution and transformer language models: caches, protocols, sizes."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text import TextError
from fl_text.heads import AdaptiveSoftMax, FullSoftmax, SampledSoftmax
from fl_text.language_model import LanguageModel
from fl_text.models import (
    GCNN,
    GPT2,
    Cache,
    CausalNetwork,
    GRUClassifier,
    LSTMLanguageModel,
    MaskedLM,
    StateCache,
    TokenNetwork,
    TransformerLanguageModel,
)
from fl_text.models.caches import join_rows
from fl_text.token_model import TokenModel

TOKENS, BOS = 11, 9
BLOCKS = [[(6, 3)], [(3, 1), (3, 2), (6, 1)], [(8, 2)]]
SMALL = dict(size=8, heads=2, layers=2, hidden=12)
NETWORKS = {
    "lstm": lambda: LSTMLanguageModel(TOKENS, 6),
    "tied lstm": lambda: LSTMLanguageModel(TOKENS, 6, tied=True),
    "lstm of another width": lambda: LSTMLanguageModel(TOKENS, 6, 5, layers=1),
    "gcnn": lambda: GCNN(TOKENS, 5, BLOCKS),
    "adaptive gcnn": lambda: GCNN(TOKENS, 5, BLOCKS, cutoffs=[3, 6], dropout=0.1),
    "transformer": lambda: TransformerLanguageModel(TOKENS, **SMALL),
    "adaptive transformer": lambda: TransformerLanguageModel(TOKENS, **SMALL, cutoffs=[3, 6]),
    "learned positions": lambda: TransformerLanguageModel(
        TOKENS, **SMALL, positions="learned", steps=16, norm_first=True, tied=True
    ),
    "gpt2": lambda: GPT2(TOKENS, 16, 8, 2, 2),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def words(rows: int, steps: int, seed: int = 0) -> ft.Tensor:
    return ft.Generator(seed).integers(0, TOKENS, (rows, steps))


@pytest.fixture
def network(name):
    ft.seed(4)
    made = NETWORKS[name]().eval()
    for parameter in made.parameters():  # so that scores differ much
        parameter.tensor = parameter.tensor * 2.0
    return made


# ---- the protocol --------------------------------------------------------------------------------


@every_network
def test_scores_are_those_of_the_head(network):
    x = words(2, 6)
    hidden = network.hidden(x)
    assert isinstance(network, CausalNetwork) and network.head.tokens == TOKENS
    assert network(x).shape == (2, 6, TOKENS) and hidden.shape[:2] == (2, 6)
    assert ft.allclose(network(x), network.head(hidden), atol=1e-6)


@every_network
def test_no_vector_depends_on_a_later_token(network):
    x = words(2, 7)
    changed = ft.concatenate([x[:, :4], (x[:, 4:] + 1) % TOKENS], 1)
    before, after = network.hidden(x), network.hidden(changed)
    assert ft.allclose(after[:, :4], before[:, :4], atol=1e-5)
    assert not ft.allclose(after[:, 4:], before[:, 4:], atol=1e-3)


@every_network
def test_a_chain_of_calls_with_caches_gives_what_one_call_gives(network):
    x, caches = words(2, 8), network.caches()
    parts = [network(x[:, a:b], caches) for a, b in ((0, 3), (3, 4), (4, 8))]
    assert all(isinstance(cache, Cache) and cache.steps == 8 for cache in caches)
    assert ft.allclose(ft.concatenate(parts, 1), network(x), atol=1e-5)


@every_network
def test_training_reaches_every_parameter(name):
    network = NETWORKS[name]()
    x = words(4, 8)
    network.head.loss(network.hidden(x), words(4, 8, seed=1)).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@every_network
def test_weights_lead_there_and_back(name, tmp_path):
    network, twin = NETWORKS[name]().eval(), NETWORKS[name]().eval()
    nn.save_weights(tmp_path / "w", network)
    nn.load_weights(tmp_path / "w", twin)
    assert ft.allclose(twin(words(1, 5)), network(words(1, 5)), atol=1e-6)


def test_a_masked_network_has_a_head_and_no_caches():
    network = MaskedLM(tokens=20, steps=8, size=12, heads=3, layers=1).eval()
    x = ft.Generator(0).integers(0, 20, (2, 5))
    assert isinstance(network, TokenNetwork) and not isinstance(network, CausalNetwork)
    assert ft.allclose(network.head(network.hidden(x)), network(x), atol=1e-6)
    assert network.head.weight is network.bert.embedding.weight


def test_an_output_of_its_own_without_a_transform():
    network = MaskedLM(tokens=20, steps=8, size=12, heads=3, layers=1, tied=False, transform=False)
    assert network.head.weight is network.output.weight
    names = set(network.state_dict())
    assert {"output.weight", "output.bias"} < names
    assert not names & {"bias", "norm.weight", "transform.weight"}


# ---- decoders ------------------------------------------------------------------------------------


def whole(network, tokens):
    """log p of each token after the whole sequence, without a cache."""
    scores = network(ft.asarray([[BOS, *tokens]], ft.int64))
    return np.asarray(ft.log_softmax(scores, -1).detach())[0, -1]


@every_network
def test_branching_states_score_as_whole_sequences_do(network):
    lm = TokenModel(network, BOS)
    assert isinstance(lm, LanguageModel)
    random = np.random.default_rng(5)
    sequences = {lm.start(): []}
    for _ in range(5):
        parents, tokens = random.choice(list(sequences), 5), random.integers(0, TOKENS, 5)
        states = lm.extend(parents, tokens)
        new = {
            state: [*sequences[parent], token]
            for state, parent, token in zip(
                states.tolist(), parents.tolist(), tokens.tolist(), strict=True
            )
        }
        for row, sequence in zip(lm.scores(states), new.values(), strict=True):
            np.testing.assert_allclose(row, whole(network, sequence), atol=2e-5)
        sequences |= new
        gone = random.choice(list(sequences), len(sequences) // 2, replace=False)
        lm.release(gone)
        for state in gone.tolist():
            del sequences[state]
        assert lm.cached_rows <= 2 * len(sequences)
    lm.release(np.array(list(sequences)))
    assert lm.cached_rows == 0


# ---- caches --------------------------------------------------------------------------------------


def test_the_state_of_an_lstm_is_carried_over_batches_without_history():
    network = LSTMLanguageModel(TOKENS, 6, dropout=0.0)
    caches, x = network.caches(), words(3, 5)
    first = network.head.loss(network.hidden(x, caches), x)
    assert not any(getattr(array, "requires_grad", False) for array in caches[0].arrays)
    first.backward()
    second = network.head.loss(network.hidden(x, caches), x)
    second.backward()  # nothing of the first batch, whose graph is gone, is needed
    assert second.item() != first.item()


def test_a_convolution_keeps_its_last_inputs():
    network = GCNN(TOKENS, 5, BLOCKS).eval()
    caches = network.caches()
    assert len(caches) == 3, "one for each convolution wider than a step"
    network(words(2, 9), caches)
    assert [cache.arrays[0].shape for cache in caches] == [(2, 5, 2), (2, 3, 1), (2, 6, 1)]
    network(words(2, 1), caches)  # fewer steps than are kept
    assert caches[0].arrays[0].shape == (2, 5, 2) and caches[0].steps == 10


def test_rows_are_selected_and_joined_on_the_axis_of_the_batch():
    a, b = StateCache(axis=1), StateCache(axis=1)
    a.update([ft.asarray([[1.0, 2.0, 3.0]])], 4)
    b.update([ft.asarray([[7.0, 8.0]])], 4)
    joined = StateCache(axis=1)
    join_rows(joined, [a, b], [ft.asarray([2, 0]), ft.asarray([1, 1])])
    assert joined.arrays[0].tolist() == [[3.0, 1.0, 8.0, 8.0]] and joined.steps == 4
    joined.select(ft.asarray([3, 0]))
    assert joined.arrays[0].tolist() == [[8.0, 3.0]]
    assert a.arrays[0].tolist() == [[1.0, 2.0, 3.0]]


def test_a_cache_that_cannot_be_joined_is_named():
    with pytest.raises(TextError, match=r"a list has no join\(parts, rows\)"):
        join_rows([], [[]], [ft.asarray([0])])


# ---- sizes ---------------------------------------------------------------------------------------


def parameters(make) -> int:
    with ft.use("null"):
        return nn.num_total_params(make())


def adaptive_softmax(size, tokens, cutoffs):
    """head, and size x w + w x members of each cluster, w = size / 4, size / 16, ..."""
    ends = [*cutoffs, tokens]
    total = size * (cutoffs[0] + len(cutoffs))
    for i, (low, high) in enumerate(zip(ends, ends[1:], strict=False)):
        width = size // 4 ** (i + 1)
        total += width * (size + high - low)
    return total


def adaptive_embedding(size, tokens, cutoffs):
    """w x members + w x size of each cluster, w = size, size / 4, ..."""
    ends = [0, *cutoffs, tokens]
    return sum(
        size // 4**i * (high - low + size)
        for i, (low, high) in enumerate(zip(ends, ends[1:], strict=False))
    )


def transformer_layer(size, hidden):
    """Four products and two, their biases, two LayerNorms."""
    return 4 * size * (size + 1) + 2 * size * hidden + hidden + size + 4 * size


def lstm(inputs, units):
    return 4 * units * (inputs + units + 2)


def gated(inputs, outputs, kernel):
    """Directions, lengths and biases of 2 x outputs kernels."""
    return 2 * outputs * (inputs * kernel + 2)


def test_parameters_of_the_benchmark_transformer():
    tables = adaptive_embedding(1024, 150_000, [10_000, 50_000])
    tables += adaptive_softmax(1024, 150_000, [10_000, 50_000])
    expected = tables + 16 * transformer_layer(1024, 4096)
    assert parameters(TransformerLanguageModel.large) == expected == 257_005_568


def test_parameters_of_the_small_transformer():
    tables = adaptive_embedding(512, 60_000, [10_000, 50_000])
    tables += adaptive_softmax(512, 60_000, [10_000, 50_000])
    expected = tables + 8 * transformer_layer(512, 1024)
    assert parameters(lambda: TransformerLanguageModel.small(60_000)) == expected


def test_parameters_of_the_lstm():
    expected = 10_000 * 200 + 2 * lstm(200, 200) + 10_000 * 201
    assert parameters(lambda: LSTMLanguageModel(10_000)) == expected == 4_653_200
    assert parameters(lambda: LSTMLanguageModel(10_000, tied=True)) == expected - 2_000_000


def test_parameters_of_gcnn_14b():
    plan = [(128, 512, [(512, 5)])]
    plan += [(512, 512, [(128, 1), (128, 5), (512, 1)])] * 3
    plan += [(512, 1024, [(512, 1), (512, 5), (1024, 1)])]
    plan += [(1024, 1024, [(512, 1), (512, 5), (1024, 1)])] * 2
    plan += [(1024, 2048, [(1024, 1), (1024, 5), (2048, 1)])]
    plan += [(2048, 2048, [(1024, 1), (1024, 5), (2048, 1)])] * 5
    plan += [(2048, 4096, [(1024, 1), (1024, 5), (4096, 1)])]
    expected = 221_452 * 128 + adaptive_softmax(4096, 221_452, [10_000, 40_000, 200_000])
    for inputs, outputs, convolutions in plan:
        width = inputs
        for channels, kernel in convolutions:
            expected += gated(width, channels, kernel)
            width = channels
        if inputs != outputs:
            expected += outputs * (inputs + 2)  # of the product beside the block
    assert parameters(GCNN.gcnn_14b) == expected == 308_908_288


def test_parameters_of_the_bert_like_model_of_the_paper():
    size, tokens = 1024, 50_265
    expected = tokens * size + 512 * size + size + 2 * size  # tables, positions, a segment, norm
    expected += 24 * transformer_layer(size, 4 * size) + tokens * (size + 1)
    found = parameters(MaskedLM.bert_like)
    assert found == expected and round(found / 1e6, 1) == 405.8


# ---- a classifier of names -----------------------------------------------------------------------


def test_a_classifier_learns_the_last_letter_of_names():
    ft.seed(0)
    network = GRUClassifier(8, 3, hidden=12, layers=1)
    random = np.random.default_rng(0)
    lengths = random.integers(2, 6, 60)
    names = random.integers(0, 8, (60, 5))
    classes = ft.asarray(names[np.arange(60), lengths - 1] % 3)
    x, optimizer = ft.asarray(names), nn.Adam(network.parameters(), lr=0.03)
    for _ in range(60):
        optimizer.zero_grad()
        nn.cross_entropy(network(x, lengths.tolist()), classes).backward()
        optimizer.step()
    found = ft.argmax(network(x, lengths.tolist()), -1)
    assert (found.numpy() == classes.numpy()).mean() > 0.9


def test_characters_behind_the_end_of_a_name_do_not_count():
    network = GRUClassifier(8, 3, hidden=5).eval()
    x = ft.asarray([[1, 2, 3, 4], [5, 6, 7, 0]])
    changed = ft.asarray([[1, 2, 0, 0], [5, 6, 7, 0]])
    assert ft.allclose(network(x, [2, 4]), network(changed, [2, 4]))
    assert parameters(lambda: GRUClassifier(100, 17)) == 100 * 256 + 2 * 3 * 256 * 514 + 17 * 257


# ---- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "gcnn", "transformer"])
def test_wrong_inputs_are_refused(network):
    kind = type(network).__name__
    with pytest.raises(TextError, match=rf"\[{kind}\] tokens \(3,\): expected \(N, T\).*\[None\]"):
        network(ft.asarray([1, 2, 3]))
    with pytest.raises(TextError, match="tokens are float32: expected an array of integers"):
        network(ft.zeros((1, 2)))
    with pytest.raises(TextError, match=r"tokens \(2, 0\): .* at least one step"):
        network(ft.zeros((2, 0), ft.int64))
    with pytest.raises(TextError, match=r"0 caches for \d layers"):
        network(words(1, 2), [])
    with pytest.raises(ft.IndexingError):
        network(ft.asarray([[TOKENS]]))


@pytest.mark.parametrize("name", ["lstm", "gcnn"])
def test_caches_of_other_sequences_are_refused(network):
    caches = network.caches()
    network(words(2, 3), caches)
    with pytest.raises(TextError, match="3 sequences of tokens, and caches of 2: continue the"):
        network(words(3, 1), caches)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: LSTMLanguageModel(5, 4, 6, tied=True), "tied=True with hidden 6 and size 4"),
        (
            lambda: LSTMLanguageModel(5, 4, tied=True, head=FullSoftmax(4, 5)),
            "no head of your own",
        ),
        (lambda: GCNN(5, 4, []), r"blocks \[\]: give lists of \(channels, kernel width\)"),
        (lambda: GCNN(5, 4, [[(3, 0)]]), "give lists of"),
        (lambda: GCNN(5, 4, [(3, 2)]), "give lists of"),
        (lambda: GCNN(5, 4, [[(3, 1)]]), "no convolution is wider than one step"),
        (
            lambda: TransformerLanguageModel(5, positions="rotary"),
            "positions='rotary': one of sinusoidal, learned",
        ),
        (lambda: TransformerLanguageModel(5, positions="learned"), "need the number of steps"),
        (lambda: TransformerLanguageModel(5, steps=4), "sinusoidal ones have none"),
        (
            lambda: TransformerLanguageModel(5, tied=True, cutoffs=[2]),
            "tied=True: give neither cutoffs nor a head",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(make, message):
    with pytest.raises(TextError, match=message):
        make()


def test_every_network_takes_a_head_of_ones_own():
    for network, size in (
        (lambda head: LSTMLanguageModel(TOKENS, 6, head=head), 6),
        (lambda head: GCNN(TOKENS, 5, BLOCKS, head=head), 8),
        (lambda head: TransformerLanguageModel(TOKENS, **SMALL, head=head), 8),
    ):
        for head in (SampledSoftmax(size, TOKENS, 4), AdaptiveSoftMax(size, TOKENS, [4])):
            made = network(head)
            loss = made.head.loss(made.hidden(words(2, 4)), words(2, 4, seed=1))
            loss.backward()
            assert made.head is head and head.log_probs(made.hidden(words(1, 2))).shape[-1] == 11
