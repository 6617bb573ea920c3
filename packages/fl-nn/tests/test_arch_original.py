"""`build_sequential(..., as_flashlight=True)`: layers with the parameters of Flashlight's own."""

import math

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft


def parameters(model):
    return {name: np.asarray(p.tensor.tolist()) for name, p in model.named_parameters()}


def count(model):
    return sum(p.size for p in model.parameters())


def normalised(x, weight=1.0, bias=0.0):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias


def attended(p, x, heads, relative):
    steps, size = x.shape
    q, k, v = np.split(x @ p["self_attn.in_proj_weight"].T, 3, -1)
    q, k, v = (a.reshape(steps, heads, -1).swapaxes(0, 1) for a in (q, k, v))
    q = q / math.sqrt(size // heads)
    scores = q @ k.swapaxes(1, 2)
    if relative:
        table = p["self_attn.relative.weight"]
        for i in range(steps):
            for j in range(steps):
                scores[:, i, j] += q[:, i] @ table[j - i + relative - 1]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True)) @ v
    return mixed.swapaxes(0, 1).reshape(steps, size) @ p["self_attn.out_proj.weight"].T


def built(line):
    model = nn.build_sequential(line, as_flashlight=True).eval().to(ft.float64)
    generator = np.random.default_rng(3)
    for parameter in model.parameters():
        values = generator.standard_normal(parameter.shape) * 0.4
        parameter.tensor = ft.asarray(values.tolist(), ft.float64)
    (layer,) = [m.module for m in model]
    x = generator.standard_normal((5, 8))
    return layer, parameters(layer), x


@pytest.mark.parametrize("norm_output", [0, 1])
def test_transformer_is_flashlights(norm_output):
    layer, p, x = built(f"TR 8 12 2 6 0.1 0.0 {norm_output} 0")
    norms = [
        lambda x, n=n: normalised(x, p[f"{n}.weight"], p[f"{n}.bias"]) for n in ("norm1", "norm2")
    ]

    def feed_forward(x):
        return np.maximum(x @ p["linear1.weight"].T, 0) @ p["linear2.weight"].T

    if norm_output:
        h = x + norms[0](attended(p, x, 2, 6))
        expected = h + norms[1](feed_forward(h))
    else:
        h = norms[0](x + attended(p, x, 2, 6))
        expected = norms[1](h + feed_forward(h))
    found = layer(ft.asarray([x.tolist()], ft.float64))
    assert np.allclose(found.tolist()[0], expected, atol=1e-10)


def test_conformer_is_flashlights():
    layer, p, x = built("CFR 8 12 2 6 3 0.1")

    def norm(x, name):
        return normalised(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def swish(x):
        return x / (1 + np.exp(-x))

    def feed_forward(x, n):
        h = norm(x, f"norm{n}") @ p[f"linear{n}1.weight"].T
        return swish(h) @ p[f"linear{n}2.weight"].T

    def convolved(x):
        value, gate = np.split(norm(x, "norm_conv1") @ p["pointwise1.weight"].T, 2, -1)
        y = np.pad(value / (1 + np.exp(-gate)), ((1, 1), (0, 0)))
        kernel = p["depthwise.weight"][:, 0]
        y = sum(y[i : i + len(x)] * kernel[:, i] for i in range(3)) + p["depthwise.bias"]
        return swish(norm(y, "norm_conv2")) @ p["pointwise2.weight"].T

    y = x + 0.5 * feed_forward(x, 1)
    y = y + attended(p, norm(y, "norm_attn"), 2, 6)
    y = y + convolved(y)
    y = y + 0.5 * feed_forward(y, 2)
    found = layer(ft.asarray([x.tolist()], ft.float64))
    assert np.allclose(found.tolist()[0], norm(y, "norm3"), atol=1e-10)


@pytest.mark.parametrize(
    ("size", "hidden", "heads", "context", "kernel"), [(8, 12, 2, 6, 3), (12, 20, 3, 0, 4)]
)
def test_parameter_counts_are_flashlights(size, hidden, heads, context, kernel):
    positions = max(2 * context - 1, 0) * size // heads
    transformer = nn.build_sequential(
        f"TR {size} {hidden} {heads} {context} 0.1", as_flashlight=True
    )
    assert count(transformer) == 4 * size**2 + 2 * size * hidden + 4 + positions
    conformer = nn.build_sequential(
        f"CFR {size} {hidden} {heads} {context} {kernel} 0.1", as_flashlight=True
    )
    expected = 7 * size**2 + 4 * size * hidden + (kernel + 13) * size + positions
    assert count(conformer) == expected


@pytest.mark.parametrize("line", ["TR 8 12 2 6 0.0", "CFR 8 12 2 6 1 0.0"])
def test_attention_does_not_see_padding(line):
    layer, _, x = built(line)
    batch = ft.asarray([x.tolist(), [*x[:3].tolist(), [9.0] * 8, [-7.0] * 8]], ft.float64)
    found = layer(batch, lengths=[5, 3])
    alone = layer(ft.asarray([x[:3].tolist()], ft.float64))
    assert np.allclose(found.tolist()[1][:3], alone.tolist()[0], atol=1e-10)


def test_dropped_layers_keep_their_outer_norms():
    x = ft.randn((1, 4, 8))
    post = nn.build_sequential("TR 8 12 2 0 0.0 0.999999", as_flashlight=True).train()
    layer = post[0].module
    assert ft.allclose(post(x), layer.norm2(layer.norm1(x)))
    inside = nn.build_sequential("TR 8 12 2 0 0.0 0.999999 1", as_flashlight=True).train()
    assert ft.allclose(inside(x), x)
    conformer = nn.build_sequential("CFR 8 12 2 0 3 0.0 0.999999", as_flashlight=True).train()
    assert ft.allclose(conformer(x), conformer[0].module.norm3(x))


def test_a_probability_of_one_is_refused():
    with pytest.raises(nn.ArchError, match="layer_drop must be"):
        nn.build_sequential("TR 8 12 2 0 0.0 1.0", as_flashlight=True)
