"""Weights of 8 bits: values, layers, files, and what is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn.quantization import Int8Embedding, Int8Linear, quantize_weights
from fl_tensor.testing import needs

pytestmark = needs("int8")


def draw(*shape, seed=0):
    return ft.Generator(seed).normal(shape)


def close(x, y, tolerance=1e-5):
    return ft.allclose(x, y, rtol=tolerance, atol=tolerance)


class Network(nn.Module):
    def __init__(self):
        self.embedding = nn.Embedding(30, 16)
        self.attention = nn.MultiHeadAttention(16, 4, kv_heads=2)
        self.layers = [nn.Linear(16, 40), nn.Linear(40, 16, bias=False)]
        self.output = nn.Linear(16, 30, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + self.attention(x, causal=True)
        x = x + self.layers[1](ft.silu(self.layers[0](x)))
        return self.output(x)


def tokens(rows=2, steps=6, seed=3):
    return ft.Generator(seed).integers(0, 30, (rows, steps))


# ---- one layer -----------------------------------------------------------------------------------


def test_each_output_has_its_own_scale_and_the_largest_weight_is_127():
    layer = nn.Linear(24, 10)
    layer.weight.tensor = layer.weight.tensor * ft.expand_dims(ft.exp(draw(10)), 1)
    weight = layer.weight.numpy()
    quantize_weights(layer)
    integers = layer.weight.numpy()
    assert layer.weight.dtype is ft.int8 and layer.weight.shape == (10, 24)
    assert (np.abs(integers).max(1) == 127).all()
    scale = layer.scale.numpy()[:, None]
    np.testing.assert_allclose(scale[:, 0], np.abs(weight).max(1) / 127, rtol=1e-6)
    assert (np.abs(integers * scale - weight) <= 0.5001 * scale).all()


def test_an_output_of_zeros_stays_zero():
    layer = nn.Linear(4, 2, bias=False)
    layer.weight.tensor = ft.zeros((2, 4))
    assert ft.all(quantize_weights(layer)(draw(3, 4)) == 0.0).item()


@pytest.mark.parametrize("rows", [(), (1,), (2,), (2, 3), (9,), (0,)])
@pytest.mark.parametrize("inputs, outputs", [(1, 1), (7, 5), (8, 16), (300, 20)])
def test_outputs_are_those_of_the_rounded_weights(rows, inputs, outputs):
    layer = quantize_weights(nn.Linear(inputs, outputs))
    x = draw(*rows, inputs)
    weight = layer.weight.numpy().T.astype(np.float64) * layer.scale.numpy()
    expected = x.numpy().astype(np.float64) @ weight + layer.bias.numpy()
    found = layer(x)
    assert found.shape == (*rows, outputs) and found.dtype is ft.float32
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-5)


def test_the_kernel_reads_weights_where_they_are(tmp_path):
    layer = quantize_weights(nn.Linear(64, 500))
    nn.save_weights(tmp_path / "x", layer)
    loaded = quantize_weights(nn.Linear(64, 500))
    nn.load_weights(tmp_path / "x", loaded)
    for weight in (layer.weight, loaded.weight, copy.deepcopy(layer).weight):
        assert np.shares_memory(*(np.asarray(weight.tobytes()) for _ in range(2)))


def test_threads_share_the_outputs(monkeypatch):
    from fl_nn.quantization import kernels

    layer = quantize_weights(nn.Linear(64, 100))
    x = draw(2, 64)
    alone = layer(x)
    monkeypatch.setattr(kernels, "WORTH", 1000)
    before = ft.get_num_threads()
    try:
        ft.set_num_threads(3)
        assert ft.all(layer(x) == alone).item()
    finally:
        ft.set_num_threads(before)


@pytest.mark.parametrize("dtype", [ft.float16, ft.float64])
def test_other_dtypes_of_the_input_are_kept(dtype):
    layer = quantize_weights(nn.Linear(8, 4, bias=False))
    x = draw(2, 8)
    found = layer(x.astype(dtype))
    assert found.dtype is dtype
    assert close(found.astype(ft.float32), layer(x), 1e-2)


@pytest.mark.parametrize("rows", [1, 20])
def test_the_input_has_a_gradient_and_the_weight_none(rows):
    layer = quantize_weights(nn.Linear(8, 4))
    x = ag.Variable(draw(rows, 8), requires_grad=True)
    layer(x).sum().backward()
    expected = ft.sum(layer.weight.astype(ft.float32) * ft.expand_dims(layer.scale, 1), 0)
    assert close(x.grad, ft.broadcast_to(expected, (rows, 8)))
    assert all(p.grad is None and not p.requires_grad for p in layer.parameters())


def test_an_input_of_another_size_is_refused():
    with pytest.raises(ft.ShapeError, match=r"\[Int8Linear\] x \(2, 7\): expected \(..., 8\)"):
        quantize_weights(nn.Linear(8, 4))(draw(2, 7))


def test_rows_of_an_embedding_have_a_scale_each():
    layer = nn.Embedding(20, 8)
    before = layer.weight.numpy()
    quantize_weights(layer, embedding=True)
    assert isinstance(layer, Int8Embedding)
    found = layer(ft.asarray([[3, 19], [0, 3]]))
    assert found.shape == (2, 2, 8)
    limit = np.abs(before).max(1)[[[3, 19], [0, 3]]][..., None] / 253
    assert (np.abs(found.numpy() - before[[[3, 19], [0, 3]]]) <= limit).all()
    with pytest.raises(ft.IndexingError, match="hold 20"):
        layer(ft.asarray([20]))


def test_layers_are_built_from_their_configuration():
    for layer in (quantize_weights(nn.Linear(8, 4)), Int8Embedding(5, 4)):
        twin = nn.from_config(layer.to_config())
        twin.load_state_dict(layer.state_dict())
        x = draw(1, 8) if isinstance(layer, Int8Linear) else ft.asarray([4, 1])
        assert ft.all(twin(x) == layer(x)).item()


# ---- a network -----------------------------------------------------------------------------------


@pytest.mark.parametrize("embedding", [False, True])
def test_a_network_gives_nearly_the_same(embedding):
    model = Network().eval()
    expected = model(tokens())
    assert quantize_weights(model, embedding=embedding) is model
    found = model(tokens())
    difference = ft.sqrt(ft.mean(ft.square(found - expected))).item()
    assert 0.0 < difference < 0.02 * ft.sqrt(ft.mean(ft.square(expected))).item()


def test_attention_with_a_cache_and_to_other_steps():
    layer = nn.MultiHeadAttention(16, 4, kv_heads=2).eval()
    x, memory = draw(1, 5, 16), draw(1, 3, 16, seed=1)
    crossed = layer(x, memory)
    quantize_weights(layer)
    at_once = layer(x, causal=True)
    cache = nn.KVCache()
    parts = [layer(x[:, t : t + 1], causal=True, cache=cache) for t in range(5)]
    assert close(ft.concatenate(parts, 1), at_once)
    assert close(layer(x, memory), crossed, 0.05)


def test_a_trained_network_loses_little():
    """Loss of a bigram model in nats, before and after."""
    steps = tokens(32, 17)
    successor = ft.Generator(1).permutation(30)
    rows = [steps[:, 0]]
    for _ in range(16):
        rows.append(ft.gather(successor, rows[-1], 0))
    text = ft.stack(rows, 1)
    x, wanted = text[:, :-1], text[:, 1:]
    model = Network()
    optimizer = nn.Adam(model.parameters(), lr=0.01)

    def loss_of():
        return nn.cross_entropy(model(x).reshape((-1, 30)), wanted.reshape((-1,)))

    for _ in range(40):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
    model.eval()
    before = loss_of().item()
    quantize_weights(model, embedding=True)
    assert before < 0.5 and abs(loss_of().item() - before) < 0.02


def test_a_tied_output_is_quantised_and_the_embedding_is_not():
    model = Network()
    model.output.weight = model.embedding.weight
    quantize_weights(model)
    assert isinstance(model.output, Int8Linear) and type(model.embedding) is nn.Embedding
    assert model.embedding.weight.dtype is ft.float32


# ---- files ---------------------------------------------------------------------------------------


def test_files_are_small_and_load_without_floating_weights(tmp_path):
    model = quantize_weights(Network().eval(), embedding=True)
    nn.save_weights(tmp_path / "x.safetensors", model)
    with nn.open_tensors(tmp_path / "x.safetensors") as file:
        assert file.tensors["layers.0.weight"].dtype is ft.int8
        assert file.tensors["layers.0.scale"].shape == (40,)
        assert file.tensors["attention.in_proj_weight"].dtype is ft.int8
    with ft.use("null"):
        twin = quantize_weights(Network().eval(), embedding=True)
    nn.load_weights(tmp_path / "x.safetensors", twin)
    assert ft.all(twin(tokens()) == model(tokens())).item()


def test_files_of_floats_and_of_integers_are_not_confused(tmp_path):
    nn.save_weights(tmp_path / "floats", Network())
    model = quantize_weights(Network())
    nn.save_weights(tmp_path / "integers", model)
    with pytest.raises(nn.CheckpointError, match="layers.0.weight is float32, here int8"):
        nn.load_weights(tmp_path / "floats", model)
    with pytest.raises(nn.CheckpointError, match="layers.0.weight is int8, here float32"):
        nn.load_weights(tmp_path / "integers", Network())


def test_copies_compute_the_same():
    model = quantize_weights(Network().eval())
    assert ft.all(copy.deepcopy(model)(tokens()) == model(tokens())).item()


# ---- what is refused -----------------------------------------------------------------------------


def test_what_has_no_weights_to_quantise_is_refused():
    model = quantize_weights(nn.Linear(3, 2))
    for module in (model, nn.LayerNorm(3), nn.Embedding(3, 2)):
        with pytest.raises(nn.ModuleError, match="has no Linear"):
            quantize_weights(module)


def test_weights_that_are_not_finite_are_refused_and_nothing_changes():
    model = Network()
    values = model.layers[1].weight.numpy().copy()
    values[0, 0] = np.nan
    model.layers[1].weight.tensor = ft.asarray(values)
    with pytest.raises(nn.ModuleError, match=r"layers\.1 has weights that are not finite"):
        quantize_weights(model)
    assert type(model.layers[0]) is nn.Linear


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("inputs, outputs", [(5, 3), (24, 40), (64, 1)])
def test_a_graph_gives_what_the_layer_gives(rows, inputs, outputs):
    layer = quantize_weights(nn.Sequential(nn.Linear(inputs, outputs))).eval()
    x = ft.Generator(1).normal((rows, inputs))
    step = nn.compile(lambda x: layer(x), layer, strict=True)
    with ag.no_grad():
        wanted = layer(x)
        for _ in range(2):
            assert ft.allclose(step(x), wanted, rtol=1e-4, atol=1e-4)
