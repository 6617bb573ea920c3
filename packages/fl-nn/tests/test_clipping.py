"""Clipping of gradients by norm and by value."""

from __future__ import annotations

import math

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, Parameter, TrainingError
from fl_tensor.testing import needs


def with_gradients(*gradients, dtype=ft.float64):
    parameters = []
    for gradient in gradients:
        values = ft.asarray([0.0] if gradient is None else gradient, dtype=dtype)
        parameters.append(Parameter(ft.zeros_like(values)))
        parameters[-1].grad = None if gradient is None else values
    return parameters


def test_gradients_are_scaled_together_and_their_norm_is_returned():
    one, none, other = with_gradients([3.0, 0.0], None, [[4.0]])
    held = one.grad.tensor
    assert nn.clip_grad_norm_([one, none, other], 1.0).item() == pytest.approx(5.0)
    assert one.grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-6)
    assert other.grad.tolist() == [pytest.approx([0.8], rel=1e-6)]
    assert none.grad is None and held.tolist() == [3.0, 0.0]


def test_short_gradients_stay_as_they_are():
    (one,) = with_gradients([3.0, 4.0])
    assert nn.clip_grad_norm_(one, 6.0).item() == 5.0
    assert one.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("norm_type, expected", [(1.0, 7.0), (math.inf, 4.0), (3.0, 91 ** (1 / 3))])
def test_other_norms(norm_type, expected):
    parameters = with_gradients([3.0], [-4.0], [])
    assert nn.clip_grad_norm_(parameters, 1.0, norm_type).item() == pytest.approx(expected)


def test_without_gradients_the_norm_is_zero():
    assert nn.clip_grad_norm_(with_gradients(None), 1.0).item() == 0.0


@needs("float16")
def test_norms_of_16_bit_gradients_do_not_overflow():
    (one,) = with_gradients([3e4, 4e4], dtype=ft.float16)
    total = nn.clip_grad_norm_(one, 1.0)
    assert total.dtype is ft.float32 and total.item() == pytest.approx(5e4, rel=1e-3)
    assert one.grad.dtype is ft.float16
    assert one.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_norms_that_are_not_finite_can_be_an_error(bad):
    one, other = with_gradients([1.0], [bad])
    with pytest.raises(TrainingError, match="lower the learning rate"):
        nn.clip_grad_norm_([one, other], 0.5, error_if_nonfinite=True)
    assert one.grad.tolist() == [1.0]


def test_clip_by_value():
    one, none = with_gradients([-3.0, 0.25, 2.0], None)
    nn.clip_grad_value_([one, none], 0.5)
    assert one.grad.tolist() == [-0.5, 0.25, 0.5] and none.grad is None


@pytest.mark.parametrize("clip", [nn.clip_grad_norm_, nn.clip_grad_value_])
@pytest.mark.parametrize("bound", [-1.0, math.nan])
def test_bounds_that_make_no_sense_are_refused(clip, bound):
    with pytest.raises(ModuleError, match=str(bound)):
        clip(with_gradients([1.0]), bound)
