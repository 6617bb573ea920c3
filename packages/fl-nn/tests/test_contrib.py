"""Layers of larger models: adaptive softmax, TDS, Conformer, Residual, asymmetric convolution."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError


def near(x, y, bound=1e-5):
    return ft.max(ft.absolute(x - y)).item() < bound


# ---- adaptive softmax and embedding --------------------------------------------------------------


def test_adaptive_log_probabilities_add_up_and_give_the_loss():
    layer = nn.AdaptiveSoftMax(16, 20, [4, 10])
    x, targets = ft.randn((2, 3, 16)), ft.asarray([[0, 3, 4], [9, 10, 19]])
    log_probs = layer(x)
    assert log_probs.shape == (2, 3, 20)
    assert near(ft.sum(ft.exp(log_probs), -1), ft.ones((2, 3)))
    expected = nn.nll_loss(log_probs, targets, "none", axis=-1)
    assert near(nn.AdaptiveSoftMaxLoss(layer, "none")(x, targets), expected)
    ignoring = nn.AdaptiveSoftMaxLoss(layer, ignore_index=9)(x, targets)
    assert ignoring.item() == pytest.approx(
        nn.nll_loss(log_probs, targets, ignore_index=9, axis=-1).item(), rel=1e-5
    )


def test_a_cluster_without_targets_gets_no_gradient():
    layer = nn.AdaptiveSoftMax(16, 20, [4, 10])
    nn.AdaptiveSoftMaxLoss(layer)(ft.randn((2, 16)), ft.asarray([1, 5])).backward()
    assert layer.tail[0][0].weight.grad is not None
    assert layer.tail[1][0].weight.grad is None


def test_rarer_classes_have_fewer_features():
    layer = nn.AdaptiveEmbedding(100, 16, [10, 50])
    assert [e.weight.shape for e in layer.embeddings] == [(10, 16), (40, 4), (50, 1)]
    y = layer(ft.asarray([[0, 10], [50, 99]]))
    assert y.shape == (2, 2, 16)
    last = layer.projections[2](layer.embeddings[2](ft.asarray(49)))
    assert near(y[1, 1], last)


# ---- speech --------------------------------------------------------------------------------------


def changes(function, x, step):
    """Which steps, on the last axis, of the result change with one step of x."""
    other = ft.asarray(x, copy=True)
    other[..., step] = other[..., step] + 1.0
    moved = ft.absolute(function(x) - function(other))
    return [i for i, d in enumerate(ft.max(moved, (0, 1)).tolist()) if d > 1e-6]


def test_asymmetric_convolution_looks_ahead_as_far_as_it_is_told():
    x = ft.randn((1, 1, 9))
    seen = {
        future: changes(nn.AsymmetricConv1D(1, 1, 5, future=future), x, 4)
        for future in (0.0, 0.5, 1.0)
    }
    assert seen == {0.0: [4, 5, 6, 7, 8], 0.5: [2, 3, 4, 5, 6], 1.0: [0, 1, 2, 3, 4]}


def test_a_tds_block_can_stream():
    x = ft.randn((1, 2, 3, 9))
    block = nn.TDSBlock(2, 5, 3, future=1, norm_over_time=False)
    flat = lambda x: block(x.reshape(1, 2, 3, 9)).reshape(1, 6, 9)  # noqa: E731
    assert changes(flat, x.reshape(1, 6, 9), 4) == [3, 4, 5, 6, 7]
    assert nn.TDSBlock(2, 4, 3)(x).shape == x.shape


def test_padding_steps_of_a_conformer_change_nothing():
    layer = nn.Conformer(8, 2, 16, kernel=3, relative=4).eval()
    x = ft.randn((1, 6, 8))
    known = ft.asarray([[True] * 4 + [False] * 2])
    assert near(layer(x, key_mask=known)[:, :4], layer(x[:, :4]))
    assert near(layer(x), layer(x))
    assert not near(layer.train()(x), layer(x))


def test_layer_drop_leaves_a_conformer_out():
    layer, x = nn.Conformer(8, 2, 16, kernel=3, layer_drop=0.5), ft.randn((1, 3, 8))
    assert 5 < sum(layer(x) is x for _ in range(32)) < 27


# ---- Residual ------------------------------------------------------------------------------------


def test_residual_adds_what_came_before():
    double = nn.Transform(lambda x: x * 2.0, "double")
    block = nn.Residual(double, double)
    block.add_shortcut(0, 3).add_shortcut(0, 2, nn.Linear(1, 1)).add_scale(3, 0.5)
    block.shortcut_0_2.weight.tensor = ft.asarray([[10.0]])
    block.shortcut_0_2.bias.tensor = ft.zeros(1)
    # ((2 x + 10 x) * 2 + x) / 2
    assert block(ft.asarray([[1.0]])).tolist() == [[12.5]]
    assert [name for name, _ in block.named_parameters()] == [
        "shortcut_0_2.weight", "shortcut_0_2.bias"
    ]  # fmt: skip


def test_a_scale_needs_no_shortcut():
    block = nn.Residual(nn.Identity(), nn.Identity()).add_scale(2, 3.0)
    assert block(ft.ones(1)).tolist() == [3.0]


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: nn.Residual(nn.ReLU()).add_shortcut(0, 3), "to 2, the output"),
        (lambda: nn.Residual(nn.ReLU()).add_shortcut(1, 1), "onwards"),
        (lambda: nn.Residual(nn.ReLU()).add_shortcut(0, 2).add_shortcut(0, 2), "already"),
        (lambda: nn.Residual(nn.ReLU()).add_scale(0, 2.0), "from 1 to 2"),
        (lambda: nn.Residual()(ft.ones(1)), "no modules"),
        (lambda: nn.AdaptiveSoftMax(4, 5, [5]), "below 5"),
        (lambda: nn.AdaptiveEmbedding(5, 4, [3, 3]), "rising"),
        (lambda: nn.TDSBlock(1, 3, 4, future=3), "kernel - 1 = 2"),
        (lambda: nn.Conformer(4, 2, 8, kernel=4), "odd"),
        (lambda: nn.AsymmetricConv1D(1, 1, 3, future=2.0), "share"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(ModuleError, match=words):
        make()
