"""Optimizers: their equations on one number, their state, and who computes for them."""

from __future__ import annotations

import math

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, Parameter, StateDictError


def start(value=1.0):
    return Parameter(ft.asarray([value], dtype=ft.float64))


def step(optimizer, *gradients):
    for parameter, gradient in zip(optimizer.parameters, gradients):
        parameter.grad = None if gradient is None else ft.asarray([gradient], dtype=ft.float64)
    optimizer.step()
    return [parameter.tensor.item() for parameter in optimizer.parameters]


def test_sgd_moves_against_the_gradient():
    assert step(nn.SGD([start()], lr=0.1), 2.0) == pytest.approx([0.8])


def test_sgd_weight_decay_adds_to_the_gradient():
    assert step(nn.SGD([start(3.0)], lr=0.1, weight_decay=0.5), 2.0) == pytest.approx([2.65])


def test_sgd_momentum_gathers_velocity():
    optimizer = nn.SGD([start(0.0)], lr=1.0, momentum=0.5)
    assert step(optimizer, 1.0) == pytest.approx([-1.0])
    assert step(optimizer, 1.0) == pytest.approx([-2.5])


def test_sgd_nesterov_looks_ahead():
    optimizer = nn.SGD([start(0.0)], lr=1.0, momentum=0.5, nesterov=True)
    assert step(optimizer, 1.0) == pytest.approx([-1.5])
    assert step(optimizer, 1.0) == pytest.approx([-1.5 - 1.75])


def test_the_first_step_of_adam_has_the_length_of_the_learning_rate():
    assert step(nn.Adam([start(0.0)], lr=0.1, eps=0.0), 1e-5) == pytest.approx([-0.1])


def test_adam_weight_decay_in_the_gradient_or_decoupled():
    coupled = nn.Adam([start(2.0)], lr=0.1, eps=0.0, weight_decay=0.5)
    assert step(coupled, 0.0) == pytest.approx([1.9])
    decoupled = nn.Adam([start(2.0)], lr=0.1, weight_decay=0.5, decoupled=True)
    assert step(decoupled, 0.0) == pytest.approx([1.9])
    assert step(decoupled, 0.0) == pytest.approx([1.9 * 0.95])


def test_the_learning_rate_can_be_changed_between_steps():
    optimizer = nn.SGD([start(0.0)], lr=1.0)
    step(optimizer, 1.0)
    optimizer.lr = 0.5
    assert step(optimizer, 1.0) == pytest.approx([-1.5])


def test_parameters_without_gradient_stay_and_are_not_counted():
    optimizer = nn.Adam([start(1.0), start(2.0)], lr=0.1)
    assert step(optimizer, None, 1.0) == pytest.approx([1.0, 1.9])
    assert optimizer.steps == [0, 1] and optimizer.state[0] == {}


def test_zero_grad_forgets_gradients():
    optimizer = nn.SGD([start()], lr=0.1)
    step(optimizer, 1.0)
    optimizer.zero_grad()
    assert optimizer.parameters[0].grad is None


def test_values_that_others_hold_do_not_change():
    parameter = start()
    held = parameter.tensor
    step(nn.SGD([parameter], lr=0.1), 1.0)
    assert held.item() == 1.0


MAKE = {
    "sgd": lambda p: nn.SGD(p, 0.1, 0.9, 0.01, nesterov=True),
    "adam": lambda p: nn.Adam(p, 0.1, (0.8, 0.9), 1e-6, 0.01, decoupled=True),
}


@pytest.mark.parametrize("name", MAKE)
def test_a_restored_optimizer_goes_on_with_the_same_bits(name):
    gradients = [math.sin(i) for i in range(10)]
    parameter = start()
    optimizer = MAKE[name]([parameter])
    for gradient in gradients[:5]:
        step(optimizer, gradient)
    state, value = optimizer.state_dict(), parameter.tensor.item()
    expected = [step(optimizer, gradient) for gradient in gradients[5:]]
    twin = type(optimizer)([start(value)], lr=99.0)
    twin.load_state_dict(state)
    assert [step(twin, gradient) for gradient in gradients[5:]] == expected
    assert repr(twin) == repr(optimizer)


def test_a_state_of_another_optimizer_or_other_parameters_is_refused():
    optimizer = nn.SGD([start(), start()], lr=0.1, momentum=0.9)
    step(optimizer, 1.0, 1.0)
    state = optimizer.state_dict()
    with pytest.raises(StateDictError, match="it is of 'SGD'"):
        nn.Adam([start()]).load_state_dict(state)
    with pytest.raises(StateDictError, match="it has 2 parameters, here 1"):
        nn.SGD([start()], lr=0.1).load_state_dict(state)
    with pytest.raises(StateDictError, match=r"0.momentum is float64 \(1,\).*float32 \(3,\)"):
        nn.SGD([Parameter(ft.ones(3)), start()], lr=0.1).load_state_dict(state)


def settings(lr=0.1, nesterov=False):
    return {"settings": {"lr": lr, "momentum": 0, "weight_decay": 0, "nesterov": nesterov}}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"settings": {"lr": 0.1}}, "momentum is missing"),
        (settings(lr="a"), "lr is 'a'"),
        (settings(nesterov=1), "nesterov is 1"),
        ({"steps": "many"}, "steps are missing"),
        ({"tensors": {"7.momentum": ft.ones(1)}}, "7.momentum is unexpected"),
        ({"tensors": {"0.secret": ft.ones(1)}}, "0.secret is unexpected"),
    ],
)
def test_a_malformed_state_is_refused(change, words):
    optimizer = nn.SGD([start()], lr=0.1)
    with pytest.raises(StateDictError, match=words):
        optimizer.load_state_dict({**optimizer.state_dict(), **change})


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: nn.SGD([], lr=0.1), "no parameters"),
        (lambda: nn.SGD([ft.ones(1)], lr=0.1), "not a Parameter"),
        (lambda: nn.SGD([start()] * 2, lr=0.1), "twice"),
        (lambda: nn.SGD([start()], lr=-0.1), "lr=-0.1"),
        (lambda: nn.SGD([start()], lr=math.nan), "lr=nan"),
        (lambda: nn.SGD([start()], lr=0.1, nesterov=True), "momentum"),
        (lambda: nn.Adam([start()], betas=(0.9, 1.0)), "betas"),
        (lambda: nn.Adam([start()], weight_decay=-1.0), "weight_decay"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ModuleError, match=words):
        make()


def test_an_override_sees_every_addition_of_a_training_step():
    counted = []

    def counting_add(inner, x, y):
        counted.append(x.shape)
        return inner.add(x, y)

    layer = nn.Linear(3, 2)
    optimizer = nn.Adam(layer.parameters())
    with ft.override(add=counting_add):
        loss = ft.mean(ft.square(layer(ft.ones((4, 3)))))
        forward = len(counted)
        loss.backward()
        optimizer.zero_grad()
        loss = ft.mean(ft.square(layer(ft.ones((4, 3)))))
        loss.backward()
        before = len(counted)
        optimizer.step()
        first = len(counted) - before
        optimizer.step()
        second = len(counted) - before - first
    assert forward == 1  # the bias
    assert (first, second) == (2, 6)  # eps, then mean, square and eps, for weight and bias
