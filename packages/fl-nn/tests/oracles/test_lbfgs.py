"""LBFGS beside SciPy's L-BFGS-B: as few function calls, to the same gradient."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

GRADIENT = 1e-5


def rosenbrock(x):
    return ft.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic_regression():
    """The regularised mean loss of 200 samples with 20 features, a function of the weights."""
    random = np.random.default_rng(0)
    features = random.standard_normal((200, 20))
    chances = features @ random.standard_normal(20) + random.standard_normal(200)
    x, y = ft.asarray(features), ft.asarray((chances > 0).astype(float))

    def loss(w):
        fit = nn.binary_cross_entropy_with_logits(ft.matmul(x, w), y)
        return fit + 1e-3 * ft.sum(w * w)

    return loss


def ours(function, start):
    """Calls, and the smallest value."""
    parameter, calls = nn.Parameter(ft.asarray(start)), 0
    optimizer = nn.LBFGS([parameter], max_iter=1000, tolerance_grad=GRADIENT, tolerance_change=0.0)

    def closure():
        nonlocal calls
        calls += 1
        loss = function(parameter)
        loss.backward()
        return loss

    optimizer.step(closure)
    gradient = ag.value_and_grad(function)(parameter.tensor)[1].numpy()
    assert np.abs(gradient).max() <= GRADIENT
    return calls, function(parameter).item()


def scipys(function, start):
    found = scipy.optimize.minimize(
        ag.value_and_grad(function), start, jac=True, method="L-BFGS-B",
        options={"gtol": GRADIENT, "ftol": 0.0, "maxiter": 1000},
    )  # fmt: skip
    assert np.abs(found.jac).max() <= GRADIENT
    return found.nfev, found.fun


STARTS = {
    "Rosenbrock": (rosenbrock, np.array([-1.2, 1.0] * 5), 2.0),
    "logistic regression": (logistic_regression(), np.zeros(20), 3.0),
}


@pytest.mark.parametrize("name", STARTS)
def test_as_few_function_calls_as_scipy(name, capsys):
    function, start, spread = STARTS[name]
    random = np.random.default_rng(1)
    starts = [start, *(random.uniform(-spread, spread, start.size) for _ in range(4))]
    pairs = []
    for x in starts:
        (mine, low), (theirs, lowest) = ours(function, x), scipys(function, x)
        assert low == pytest.approx(lowest, abs=1e-7)
        pairs.append((mine, theirs))
    with capsys.disabled():
        print(f"\n{name}: function calls, ours / SciPy's: ", end="")
        print(", ".join(f"{mine} / {theirs}" for mine, theirs in pairs))
    assert all(mine <= 1.2 * theirs for mine, theirs in pairs)
