"""What is written for the array API standard is differentiable."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_autograd import Variable


def standardized(x):
    xp = x.__array_namespace__()
    return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)


def test_gradients_go_through_the_namespace():
    x = Variable(ft.asarray([[1.0, 2.0], [4.0, -1.0], [0.5, 3.0]]), requires_grad=True)
    xp = x.__array_namespace__()
    weights = xp.asarray([[1.0], [0.0], [0.0]])
    xp.sum(xp.astype(standardized(x), xp.float64) * weights).backward()
    step, x0 = 1e-6, x.numpy().astype(float)
    for i in range(2):
        high, low = x0.copy(), x0.copy()
        high[0, i] += step
        low[0, i] -= step
        slope = (
            standardized(ft.asarray(high))[0, i] - standardized(ft.asarray(low))[0, i]
        ).item() / (2 * step)
        np.testing.assert_allclose(x.grad.numpy()[0, i], slope, rtol=1e-4)


def test_running_sums_with_an_initial_value_are_variables():
    x = Variable(ft.ones(3), requires_grad=True)
    xp = x.__array_namespace__()
    xp.sum(xp.cumulative_sum(x, include_initial=True)).backward()
    assert x.grad.tolist() == [3, 2, 1]
