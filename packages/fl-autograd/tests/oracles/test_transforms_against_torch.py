"""vjp, jvp, jacobian and hessian against PyTorch, at random functions of random shapes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

torch = pytest.importorskip("torch")

SEED = random.randrange(1 << 30)
STEPS = {
    "tanh": (ft.tanh, torch.tanh),
    "exp": (lambda x: ft.exp(x * 0.3), lambda x: torch.exp(x * 0.3)),
    "softmax": (lambda x: ft.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    "square": (lambda x: x * x, lambda x: x * x),
    "sin": (ft.sin, torch.sin),
    "sum": (lambda x: x - ft.mean(x), lambda x: x - torch.mean(x)),
}


@pytest.fixture(params=range(20))
def case(request: pytest.FixtureRequest) -> Any:
    """Ours, theirs, two inputs and the draw's source."""
    seed = SEED + request.param
    print(f"seed {seed}")
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    names = pick.choices(sorted(STEPS), k=3)
    n, m = pick.randint(1, 4), pick.randint(1, 4)

    def make(which: int) -> Any:
        def function(a: Any, x: Any) -> Any:
            y = a @ x
            for name in names:
                y = STEPS[name][which](y)
            return y

        return function

    return make(0), make(1), rng.standard_normal((n, m)), rng.standard_normal(m), rng


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple):
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_products(case: Any) -> None:
    ours, theirs, *inputs, rng = case
    xs, ts = [ft.asarray(v) for v in inputs], [torch.tensor(v) for v in inputs]
    y, pullback = ag.vjp(ours, *xs)
    z, other = torch.func.vjp(theirs, *ts)
    same(y, z)
    u = rng.standard_normal(y.shape)
    same(pullback(ft.asarray(u)), other(torch.tensor(u)))
    directions = [rng.standard_normal(v.shape) for v in inputs]
    same(
        ag.jvp(ours, xs, [ft.asarray(v) for v in directions]),
        torch.autograd.functional.jvp(
            theirs, tuple(ts), tuple(torch.tensor(v) for v in directions)
        ),
    )


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobians(case: Any, strategy: Any) -> None:
    ours, theirs, *inputs, _ = case
    xs, ts = tuple(map(ft.asarray, inputs)), tuple(map(torch.tensor, inputs))
    want = torch.autograd.functional.jacobian(theirs, ts)
    same(ag.jacobian(ours, xs, strategy=strategy), want)


def test_hessians(case: Any) -> None:
    ours, theirs, *inputs, _ = case
    xs, ts = tuple(map(ft.asarray, inputs)), tuple(map(torch.tensor, inputs))
    want = torch.autograd.functional.hessian(lambda a, x: (theirs(a, x) ** 2).sum(), ts)
    same(ag.hessian(lambda a, x: (ours(a, x) ** 2).sum(), xs), want)
