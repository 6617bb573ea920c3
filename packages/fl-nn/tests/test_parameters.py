"""Parameters stay parameters: what may be assigned to them, and how they are updated by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

NO_PARAMETERS = {
    "Tensor": lambda: ft.ones((1, 3)),
    "array of NumPy": lambda: np.ones((1, 3), "float32"),
    "Variable": lambda: ag.Variable(ft.ones((1, 3)), requires_grad=True),
    "result": lambda: nn.Parameter(ft.ones((1, 3))) * 2.0,
    "list": lambda: [[1.0, 1.0, 1.0]],
    "number": lambda: 0.0,
    "Module": lambda: nn.ReLU(),
}


@pytest.mark.defect("N1", "V1")
@pytest.mark.parametrize("kind", NO_PARAMETERS)
def test_what_is_no_parameter_does_not_take_the_place_of_one(kind: str) -> None:
    layer = nn.Linear(3, 1)
    weight = layer.weight
    with pytest.raises(TypeError, match=r"layer\.weight\.tensor = x.*nn\.Parameter\(x\)") as caught:
        layer.weight = NO_PARAMETERS[kind]()
    assert isinstance(caught.value, nn.FlError)
    assert isinstance(caught.value, nn.ParameterError)
    assert layer.weight is weight
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]


def test_both_ways_that_the_error_names_work() -> None:
    layer = nn.Linear(3, 1)
    layer.weight.tensor = ft.ones((1, 3))
    assert layer.state_dict()["weight"].tolist() == [[1.0, 1.0, 1.0]]
    layer.weight = nn.Parameter(ft.zeros((1, 3)))
    assert layer.state_dict()["weight"].tolist() == [[0.0, 0.0, 0.0]]


def test_none_removes_a_parameter_and_a_result_may_stand_in_for_it() -> None:
    layer = nn.Linear(3, 1)
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    layer.weight = None
    layer.weight = ft.ones((1, 3)) * 2.0  # as weight normalisation does
    assert layer(ft.ones((1, 3))).tolist() == [[6.0]]


def test_attributes_that_are_no_parameters_take_anything() -> None:
    layer = nn.Linear(3, 1)
    layer.note = ft.ones(1)
    layer.note = "a text"
    assert layer.note == "a text"


@pytest.mark.defect("N1")
@pytest.mark.parametrize("frozen", [False, True])
def test_an_inplace_operator_on_an_attribute_updates_the_parameter(frozen: bool) -> None:
    layer = nn.Linear(3, 1).freeze(frozen)
    weight, before = layer.weight, layer.weight.tolist()
    with ag.no_grad():
        layer.weight *= 0.5
    assert layer.weight is weight and isinstance(weight, nn.Parameter)
    assert weight.requires_grad is not frozen
    assert np.array_equal(weight.numpy(), 0.5 * np.asarray(before, "float32"))
    assert set(layer.state_dict()) == {"weight", "bias"}


@pytest.mark.defect("N1", "N2")
def test_a_step_written_by_hand_is_that_of_sgd() -> None:
    ours, theirs = (nn.Linear(3, 1, generator=ft.Generator(0)) for _ in range(2))
    x, optimizer = ft.Generator(1).normal((8, 3)), nn.SGD(theirs.parameters(), lr=0.1)
    for _ in range(3):
        for model in (ours, theirs):
            model.zero_grad()
            (model(x) ** 2).mean().backward()
        with ag.no_grad():
            for p in ours.parameters():
                p -= 0.1 * p.grad
        optimizer.step()
    assert nn.all_params_close(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.defect("N1", "N2")
def test_frozen_parameters_are_updated_without_no_grad_but_take_no_history() -> None:
    p = nn.Parameter(ft.ones(2), requires_grad=False)
    q = p
    q += 1.0
    assert q is p and p.tolist() == [2.0, 2.0]
    with pytest.raises(ag.GradError, match="detach"):
        p += nn.Parameter(ft.ones(2))
    assert p.tolist() == [2.0, 2.0]


@pytest.mark.defect("N1", "N2")
def test_while_recording_an_inplace_operator_on_a_parameter_names_both_ways() -> None:
    layer = nn.Linear(3, 1)
    with pytest.raises(ag.GradError, match=r"no_grad.*p\.tensor"):
        layer.weight *= 0.5


CALLS: dict[str, Any] = {
    "freeze": lambda layer: layer.freeze("x"),
    "freeze a number": lambda layer: layer.freeze(1),
    "train": lambda layer: layer.train("x"),
    "train None": lambda layer: layer.train(None),
    "forward hook": lambda layer: layer.register_forward_hook(3),
    "forward pre-hook": lambda layer: layer.register_forward_pre_hook("print"),
    "buffer's name": lambda layer: layer.register_buffer(3, ft.ones(1)),
    "buffer's dotted name": lambda layer: layer.register_buffer("a.b", ft.ones(1)),
    "buffer's value": lambda layer: layer.register_buffer("mean", "x"),
    "buffer's persistence": lambda layer: layer.register_buffer("mean", None, "no"),
}


@pytest.mark.defect("V19", "item 10")
@pytest.mark.parametrize("name", CALLS)
def test_arguments_without_sense_are_refused_where_they_are_given(name: str) -> None:
    layer = nn.Linear(3, 1)
    with pytest.raises(nn.ModuleError, match="give"):
        CALLS[name](layer)
    assert layer.training and all(p.requires_grad for p in layer.parameters())
    layer(ft.ones((1, 3)))
