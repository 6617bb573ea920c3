"""Training steps with ``ft.scan`` and ``ft.cond`` over modules, compiled."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft


class Recurrent(nn.Module):
    """Stacked cells, whose parameters are used inside the body of a scan."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.cells = [nn.Linear(8, 4), nn.Linear(8, 4)]
        self.readout = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 1))

    def forward(self, xs):
        def body(states, x):
            now, new = self.embed(x), []
            for cell, state in zip(self.cells, states, strict=True):
                now = ft.tanh(cell(ft.concatenate([now, state], -1)))
                new.append(now)
            return new, self.readout(now)

        start = [ft.zeros((xs.shape[1], 4)) for _ in self.cells]
        states, ys = ft.scan(body, start, xs)
        return ft.cond(
            ft.sum(states[0]) > 0, lambda y: y * 2, lambda y: self.readout[0](y + 1), states[1]
        ), ys


def losses(backend, compiled):
    with ft.use(backend):
        ft.seed(0)
        model = Recurrent()
        optimizer = nn.AdamW(model.parameters(), lr=1e-2)
        schedule = nn.CosineAnnealingLR(optimizer, 8)

        def train_step(xs, target):
            optimizer.zero_grad()
            y, ys = model(xs)
            loss = ft.mean((ys - target) ** 2) + ft.mean(y * y)
            loss.backward()
            nn.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        step = nn.compile(train_step, strict=True) if compiled else train_step
        found = []
        for i in range(8):
            generator = ft.Generator(i)
            xs = generator.normal((5, 6, 3))
            found.append(step(xs, generator.normal((5, 6, 1))).item())
            schedule.step()
        assert not compiled or step.compiled_calls == 7
        return found, [p.tensor.numpy() for p in model.parameters()]


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_a_recurrent_model_learns_as_without(backend):
    if backend == "jit":
        pytest.importorskip("fl_jit")
    wanted, got = losses(backend, False), losses(backend, True)
    np.testing.assert_allclose(got[0], wanted[0], rtol=2e-5)
    for a, b in zip(got[1], wanted[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


def test_a_name_of_an_attribute_is_no_variable():
    """The step calls ``optimizer.step``; a global ``step`` has nothing to do with it."""
    scope = {"nn": nn, "ft": ft}
    exec(
        "model = nn.Linear(3, 1)\n"
        "optimizer = nn.SGD(model.parameters(), lr=0.1)\n"
        "def train_step(x):\n"
        "    optimizer.zero_grad()\n"
        "    loss = ft.mean(model(x) ** 2)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    return loss\n"
        "step = nn.compile(train_step, strict=True)\n",
        scope,
    )
    for _ in range(3):
        scope["step"](ft.ones((2, 3)))
    assert scope["step"].compiled_calls == 2
