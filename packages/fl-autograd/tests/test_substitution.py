"""Placeholders in leaves: a function of them is recorded without data."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend


def leaf():
    x = ag.Variable(ft.ones((3,)), requires_grad=True)
    ft.sum(x * 2.0).backward()
    return x


def test_a_block_with_placeholders_leaves_values_gradients_and_hooks():
    x, seen = leaf(), []
    x.register_hook(lambda grad: seen.append(grad.backend.name))
    before, grad, backend = x.tensor.adapter, x.grad, x.backend
    with extend.preserved([x]):
        extend.substitute(x, ft.ones((3,), backend="null"))
        assert x.backend.name == "null" and x.requires_grad and x.grad is None
        ft.sum(x * x).backward()
        assert x.grad.shape == (3,) and x.grad.backend.name == "null"
    assert x.tensor.adapter is before and x.grad is grad and x.backend is backend
    assert seen == ["null"]
    ft.sum(x).backward()
    assert x.grad.tolist() == [3.0, 3.0, 3.0] and len(seen) == 2


def test_an_error_in_the_block_restores_too():
    x = leaf()
    grad = x.grad
    with pytest.raises(RuntimeError), extend.preserved([x]):
        extend.substitute(x, ft.ones((3,), backend="null"))
        raise RuntimeError
    assert x.tolist() == [1.0, 1.0, 1.0] and x.grad is grad


def test_a_value_on_the_same_backend_keeps_the_gradient():
    x = leaf()
    extend.substitute(x, x.tensor * 5.0)
    assert x.tolist() == [5.0, 5.0, 5.0] and x.grad.tolist() == [2.0, 2.0, 2.0]


def test_recording_tells_modes_apart():
    assert extend.recording() is True
    with ag.no_grad():
        assert extend.recording() is False
    with ag.detect_anomaly():
        assert not isinstance(extend.recording(), bool)
