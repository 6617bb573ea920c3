"""Layers over sequences: recurrent ones, attention, Transformers, positions, weight norm."""

from __future__ import annotations

import copy

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError


def near(x, y, bound=1e-5):
    return ft.max(ft.absolute(x - y)).item() < bound


# ---- recurrent -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_sequence_is_treated_as_if_it_were_alone(kind):
    layer = kind(2, 3, layers=2, bidirectional=True, batch_first=True)
    x = ft.randn((2, 5, 2))
    y, _ = layer(x, lengths=[5, 3])
    alone, _ = layer(x[1:, :3])
    assert y.shape == (2, 5, 6)
    assert near(y[1:, :3], alone) and y[1, 3:].tolist() == [[0.0] * 6] * 2


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_the_state_carries_on_a_sequence(kind):
    layer = kind(2, 3, layers=2)
    x = ft.randn((6, 1, 2))
    whole, end = layer(x)
    first, state = layer(x[:4])
    second, last = layer(x[4:], state)
    assert near(ft.concatenate([first, second]), whole)
    for one, other in zip(last, end) if kind is nn.LSTM else [(last, end)]:
        assert near(one, other)


def test_dropout_between_recurrent_layers_is_for_training():
    layer = nn.GRU(2, 8, layers=2, dropout=0.5)
    x = ft.randn((4, 1, 2))
    assert not near(layer(x)[0], layer(x)[0])
    layer.eval()
    assert near(layer(x)[0], layer(x)[0])


def test_dropout_leaves_the_input_and_the_last_layer_alone():
    layer, x = nn.GRU(3, 4, layers=2, dropout=0.5), ft.randn((5, 2, 3))
    y, trained = layer(x)
    _, plain = layer.eval()(x)
    assert near(trained[0], plain[0]) and not near(trained[1], plain[1])
    assert near(y[-1], trained[1])


def test_names_of_recurrent_parameters_are_those_of_pytorch():
    names = [name for name, _ in nn.LSTM(1, 1, 2, bidirectional=True).named_parameters()]
    assert names[:4] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    assert names[-1] == "bias_hh_l1_reverse" and len(names) == 16


@pytest.mark.parametrize(
    "make, call, words",
    [
        (lambda: nn.GRU(0, 1), None, "at least 1"),
        (lambda: nn.RNN(1, 1, nonlinearity="gelu"), None, "'tanh' or 'relu'"),
        (lambda: nn.GRU(2, 3), lambda m: m(ft.ones((4, 2))), "steps, batch, 2"),
        (lambda: nn.GRU(2, 3), lambda m: m(ft.ones((0, 1, 2))), "no steps"),
        (lambda: nn.GRU(2, 3), lambda m: m(ft.ones((4, 1, 2)), ft.ones((1, 1, 2))), "state"),
        (lambda: nn.GRU(2, 3), lambda m: m(ft.ones((4, 1, 2)), (ft.ones((1, 1, 3)),)), "one array"),
        (lambda: nn.LSTM(2, 3), lambda m: m(ft.ones((4, 1, 2)), ft.ones((1, 1, 3))), "pair .h, c."),
        (lambda: nn.LSTM(2, 3), lambda m: m(ft.ones((4, 1, 2)), [ft.ones((1, 1, 3))]), "pair"),
        (lambda: nn.GRU(2, 3), lambda m: m(ft.ones((4, 1, 2)), lengths=[5]), "from 1 to 4"),
        (lambda: nn.WeightNorm(nn.ReLU()), None, "no parameter 'weight'"),
        (lambda: nn.WeightNorm(nn.Linear(1, 1), 2), None, "axis 2"),
        (lambda: nn.MultiHeadAttention(5, 2), None, "head_size"),
        (lambda: nn.MultiHeadAttention(6, 3, kv_heads=2), None, "divide heads"),
        (lambda: nn.MultiHeadAttention(4, 2), lambda m: m(ft.ones((1, 2, 3))), "query"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="tan"), None, "one of relu"),
        (lambda: nn.TransformerEncoderLayer(4, 2, layer_drop=1.0), None, "below 1"),
        (lambda: nn.RotaryEmbedding(3), None, "even"),
        (lambda: nn.PositionEmbedding(2, 3), lambda m: m(ft.ones((3, 3))), "2 positions"),
        (lambda: nn.SinusoidalPositionEmbedding(3), lambda m: m(ft.ones((3, 2))), "steps, 3"),
    ],
)
def test_what_makes_no_sense_is_refused(make, call, words):
    with pytest.raises((ModuleError, ft.ShapeError), match=words):
        made = make()
        call(made)


# ---- weight norm ---------------------------------------------------------------------------------


def test_weight_norm_starts_as_the_layer_and_splits_its_weight():
    layer = nn.Linear(3, 2)
    x = ft.randn((4, 3))
    before = layer(x)
    norm = nn.WeightNorm(layer)
    assert near(norm(x), before)
    assert [p.shape for p in norm.parameters()] == [(2, 1), (2, 3), (2,)]
    norm.weight_v.tensor = norm.weight_v.tensor * 7.0
    assert near(norm(x), before)
    twin = copy.deepcopy(norm)
    assert near(twin(x), norm(x)) and twin.weight_g is not norm.weight_g


# ---- attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"kv_heads": 2}, {"kv_heads": 1, "rotary": 100.0}, {"relative": 3}, {"head_size": 3}],
    ids=str,
)
def test_generation_with_a_cache_gives_what_the_whole_sequence_gives(options):
    layer = nn.MultiHeadAttention(8, 4, **options)
    x = ft.randn((2, 6, 8))
    whole = layer(x, causal=True)
    cache = nn.KVCache()
    with ag.no_grad():
        parts = [layer(x[:, a:b], causal=True, cache=cache) for a, b in [(0, 3), (3, 4), (4, 6)]]
    assert cache.steps == 6
    assert near(ft.concatenate(parts, 1), whole)


def test_rows_of_a_cache_can_be_selected():
    layer = nn.TransformerEncoderLayer(4, 2, 8, norm_first=True).eval()
    x, cache = ft.randn((2, 3, 4)), nn.KVCache()
    layer(x, causal=True, cache=cache)
    cache.select(ft.asarray([1, 1, 0]))
    new = ft.randn((3, 1, 4))
    y = layer(new, causal=True, cache=cache)
    picked = ft.concatenate([ft.gather(x, ft.asarray([1, 1, 0])), new], 1)
    assert near(y, layer(picked, causal=True)[:, 3:])


def test_a_function_that_fills_a_cache_is_not_run_twice():
    layer, cache = nn.MultiHeadAttention(4, 2), nn.KVCache()
    y = ag.checkpoint(lambda x: layer(x, cache=cache), ft.randn((1, 3, 4)))
    with pytest.raises(nn.ModuleError, match=r"\[KVCache\].*without checkpoint"):
        ft.sum(y).backward()
    assert cache.steps == 3


def test_a_query_that_may_look_nowhere_gets_zeros_and_finite_gradients():
    q = nn.Parameter(ft.randn((1, 1, 2, 3)))
    mask = ft.asarray([[True, False], [False, False]])
    y = nn.attention(q, q, q, mask)
    assert y.tolist()[0][0][1] == [0.0] * 3
    ft.sum(ft.square(y)).backward()
    assert ft.all(ft.isfinite(q.grad)).item()
    forbidden = ft.where(mask, 0.0, float("-inf"))
    assert near(nn.attention(q, q, q, forbidden), y)


MASKS = {
    "none": None,
    "bool": [[True, False, True], [True, True, True], [False, True, True]],
    "floating": [[0.5, 0.0, -1.0], [0.0, 2.0, float("-inf")], [0.1, 0.2, 0.3]],
}


@pytest.mark.parametrize("kind", MASKS)
def test_padding_keys_change_nothing(kind):
    layer = nn.MultiHeadAttention(4, 2)
    x = ft.randn((1, 5, 4))
    known = ft.asarray([[True, True, True, False, False]])
    mask = short = None
    if MASKS[kind] is not None:
        short = ft.asarray(MASKS[kind])
        mask = ft.pad(short, ((0, 2), (0, 2)), value=1)  # allows the padding
    assert near(layer(x, mask=mask, key_mask=known)[:, :3], layer(x[:, :3], mask=short))


def test_relative_positions_are_scaled_like_the_products():
    layer = nn.MultiHeadAttention(4, 1, relative=3, bias=False)
    q, k, v = (ft.randn((4, 4)) for _ in range(3))
    layer.in_proj_weight.tensor = ft.concatenate([q, k, v])
    layer.out_proj.weight.tensor = ft.asarray([[float(i == j) for j in range(4)] for i in range(4)])
    x = ft.randn((1, 3, 4))
    queries, keys, values = (ft.linear(x, w)[0] for w in (q, k, v))
    rows = layer.relative.weight.tensor
    scores = [
        [ft.sum(queries[i] * (keys[j] + rows[j - i + 2])).item() / 2.0 for j in range(3)]
        for i in range(3)
    ]  # (q k + q r) / sqrt(size): Shaw et al., 2018
    assert near(layer(x)[0], ft.softmax(ft.asarray(scores), -1) @ values)


def test_attention_weights_are_dropped_in_training_alone():
    layer = nn.MultiHeadAttention(4, 2, dropout=0.5)
    x = ft.randn((1, 5, 4))
    assert not near(layer(x), layer(x))
    layer.eval()
    assert near(layer(x), layer(x))


# ---- Transformers --------------------------------------------------------------------------------


def test_norm_first_leaves_the_residual_path_alone():
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, norm_first=True)
    layer.self_attn.out_proj.weight.tensor = ft.zeros((4, 4))
    layer.linear2.weight.tensor = ft.zeros((4, 8))
    layer.linear2.bias.tensor = ft.zeros(4)
    x = ft.randn((1, 3, 4)) * 100.0
    assert layer(x).tolist() == x.tolist()


@pytest.mark.parametrize("norm_first", [False, True])
def test_norms_stand_before_what_they_belong_to_or_behind(norm_first):
    layer = nn.TransformerEncoderLayer(4, 2, 8, norm_first=norm_first).eval()
    for parameter in layer.parameters():
        parameter.tensor = ft.randn(parameter.shape)
    x = ft.randn((2, 3, 4))

    def feed(x):
        return layer.linear2(ft.relu(layer.linear1(x)))

    if norm_first:
        h = x + layer.self_attn(layer.norm1(x))
        y = h + feed(layer.norm2(h))
    else:
        h = layer.norm1(x + layer.self_attn(x))
        y = layer.norm2(h + feed(h))
    assert near(layer(x), y, 1e-4)


def test_layer_drop_leaves_whole_layers_out_in_training():
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, layer_drop=0.5)
    x = ft.randn((1, 3, 4))
    skipped = [layer(x) is x for _ in range(64)]
    assert 10 < sum(skipped) < 54
    layer.eval()
    assert not any(layer(x) is x for _ in range(8))


@pytest.mark.fl_heavy
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_learns_to_copy(norm_first):
    ft.seed(1)
    model = nn.Sequential(
        nn.Embedding(5, 16), nn.SinusoidalPositionEmbedding(16),
        nn.TransformerEncoderLayer(16, 2, 32, 0.0, norm_first=norm_first), nn.Linear(16, 5),
    )  # fmt: skip
    optimizer = nn.Adam(model.parameters(), 0.01)
    words = ft.Generator(0).integers(0, 5, (8, 6))
    targets = ft.concatenate([words[:, :1], words[:, :-1]], 1)  # the word before
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(words), targets, axis=-1)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_rotary_products_depend_on_distance_alone():
    turn = nn.RotaryEmbedding(8)
    a, b = ft.randn((1, 8)), ft.randn((1, 8))
    near_start = ft.sum(turn(a, 3) * turn(b, 1))
    far_away = ft.sum(turn(a, 45) * turn(b, 43))
    assert near_start.item() == pytest.approx(far_away.item(), abs=1e-4)


def test_positions_go_on_at_an_offset():
    x = ft.zeros((1, 6, 4))
    for layer in (nn.SinusoidalPositionEmbedding(4), nn.PositionEmbedding(8, 4)):
        assert near(layer(x)[:, 4:], layer(x[:, 4:], offset=4))


def test_summaries_of_sequence_models_need_no_values():
    layers = [nn.GRU(4, 6, batch_first=True), nn.TransformerEncoderLayer(4, 2, 8, rotary=10.0)]
    shapes = [nn.summary(layer, (2, 3, 4)).rows[0].output for layer in layers]
    assert shapes == [(2, 3, 6), (2, 3, 4)]
