"""SpectralNorm: the largest singular value of a weight becomes 1."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft


class Seen(nn.Module):
    """Keeps the weight that it is called with."""

    def __init__(self, weight):
        self.weight, self.seen = nn.Parameter(weight), []

    def forward(self):
        self.seen.append(self.weight)
        return self.weight


def largest(weight, axis=0):
    matrix = np.moveaxis(weight.numpy().astype(np.float64), axis, 0)
    return np.linalg.svd(matrix.reshape(matrix.shape[0], -1), compute_uv=False)[0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_largest_singular_value_becomes_1(axis):
    weight = ft.randn((4, 3, 2), ft.Generator(1)) * 7.0
    norm = nn.SpectralNorm(Seen(weight), axis, iterations=40, generator=ft.Generator(0))
    found = norm()
    assert largest(weight, axis) > 5.0
    assert largest(found.tensor, axis) == pytest.approx(1.0, abs=1e-4)
    assert np.allclose(found.numpy() * largest(weight, axis), weight.numpy(), atol=1e-3)


def test_transposed_convolutions_have_their_outputs_on_axis_1():
    assert nn.SpectralNorm(nn.ConvTranspose1D(2, 3, 4)).axis == 1
    assert nn.SpectralNorm(nn.Conv1D(2, 3, 4)).axis == 0


def test_training_goes_on_with_the_power_iteration_and_evaluation_does_not():
    norm = nn.SpectralNorm(nn.Linear(6, 5), generator=ft.Generator(0))
    norm.original.tensor = ft.randn((5, 6), ft.Generator(2))  # far from the vectors
    x = ft.ones((1, 6))
    before = norm.state_dict()["parametrizations.weight.0._u"].tolist()
    norm.eval()(x)
    assert norm.state_dict()["parametrizations.weight.0._u"].tolist() == before
    norm.train()(x)
    assert norm.state_dict()["parametrizations.weight.0._u"].tolist() != before


def test_under_checkpoint_the_second_run_computes_the_same():
    plain = nn.SpectralNorm(nn.Linear(4, 3), generator=ft.Generator(0))
    plain.original.tensor = ft.randn((3, 4), ft.Generator(2))
    again, x = copy.deepcopy(plain), ft.randn((2, 4), ft.Generator(3))
    plain(x).sum().backward()
    ag.checkpoint(again, x).sum().backward()
    assert again.original.grad.tolist() == plain.original.grad.tolist()
    assert again.state_dict()["parametrizations.weight.0._u"].tolist() == (
        plain.state_dict()["parametrizations.weight.0._u"].tolist()
    )


def test_two_checkpointed_calls_before_one_backward_pass():
    plain = nn.SpectralNorm(nn.Linear(4, 3), generator=ft.Generator(0))
    plain.original.tensor = ft.randn((3, 4), ft.Generator(2))
    again = copy.deepcopy(plain)
    x, y = (ft.randn((2, 4), ft.Generator(seed)) for seed in (3, 4))
    (plain(x).sum() - plain(y).sum()).backward()
    (ag.checkpoint(again, x).sum() - ag.checkpoint(again, y).sum()).backward()
    assert again.original.grad.tolist() == plain.original.grad.tolist()


def test_too_many_calls_between_a_checkpointed_one_and_its_backward_pass_are_an_error():
    norm, x = nn.SpectralNorm(nn.Linear(4, 3)), ft.ones((2, 4))
    total = ag.checkpoint(norm, x).sum()
    for _ in range(64):
        norm(x)
    with pytest.raises(ag.GradError, match="64 calls later"):
        total.backward()


def test_a_parameter_of_one_axis_is_divided_by_its_length():
    norm = nn.SpectralNorm(Seen(ft.asarray([3.0, 4.0])))
    assert norm().tolist() == pytest.approx([0.6, 0.8])
    assert list(norm.state_dict()) == ["parametrizations.weight.original"]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"name": "weights"}, "Linear has no parameter 'weights'"),
        ({"axis": 2}, r"axis 2: the weight is float32 \(3, 2\)"),
        ({"iterations": 0}, "iterations=0: give a whole number of at least 1"),
        ({"eps": -1.0}, "eps=-1.0: give a number above 0"),
    ],
)
def test_settings_without_sense_are_refused_and_the_layer_stays_whole(options, words):
    layer = nn.Linear(2, 3)
    with pytest.raises(nn.ModuleError, match=words):
        nn.SpectralNorm(layer, **options)
    assert list(layer.state_dict()) == ["weight", "bias"]
