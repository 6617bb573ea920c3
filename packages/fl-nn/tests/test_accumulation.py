"""Gradient accumulation: parts of a batch give the step of the whole, also after a restart."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, StateDictError

X = ft.randn((12, 3), ft.Generator(0), dtype=ft.float64)
Y = ft.randn((12, 2), ft.Generator(1), dtype=ft.float64)


def build(seed=0):
    ft.seed(seed)
    model = nn.Linear(3, 2).to(ft.float64)
    return model, nn.Adam(model.parameters(), 0.1)


def weights(model):
    return ft.concatenate([ft.reshape(p.tensor, -1) for p in model.parameters()]).tolist()


def test_parts_of_any_size_give_the_step_of_the_whole():
    model, optimizer = build()
    nn.mse(model(X), Y).backward()
    optimizer.step()

    parts, optimizer = build()
    accumulation = nn.GradientAccumulation(optimizer, every=3)
    done = []
    for start, stop in [(0, 2), (2, 9), (9, 12)]:
        loss = nn.mse(parts(X[start:stop]), Y[start:stop])
        accumulation.backward(loss, weight=stop - start)
        done.append(accumulation.step())
    assert done == [False, False, True]
    assert weights(parts) == pytest.approx(weights(model), rel=1e-12)
    assert all(p.grad is None for p in parts.parameters())


def test_flush_steps_with_the_parts_that_have_come():
    model, optimizer = build()
    nn.mse(model(X[:4]), Y[:4]).backward()
    optimizer.step()

    parts, optimizer = build()
    accumulation = nn.GradientAccumulation(optimizer, every=10)
    accumulation.backward(nn.mse(parts(X[:4]), Y[:4]))
    assert not accumulation.step() and accumulation.flush() and not accumulation.flush()
    assert weights(parts) == weights(model)


def test_what_was_there_before_does_not_count():
    model, optimizer = build()
    for p in model.parameters():
        p.grad = ft.ones_like(p.tensor)
    accumulation = nn.GradientAccumulation(optimizer, every=2)
    accumulation.backward(nn.mse(model(X), Y))
    parts, _ = build()
    nn.mse(parts(X), Y).backward()
    assert model.bias.grad.tolist() == parts.bias.grad.tolist()


def test_before_step_sees_the_mean_gradients():
    model, optimizer = build()
    norms = []

    def clip():
        norms.append(nn.clip_grad_norm_(model.parameters(), 1e-3).item())

    accumulation = nn.GradientAccumulation(optimizer, 2, before_step=clip)
    for _ in range(2):
        accumulation.backward(nn.mse(model(X), Y), weight=7.0)
        accumulation.step()
    model, _ = build()
    nn.mse(model(X), Y).backward()
    assert norms == [pytest.approx(nn.clip_grad_norm_(model.parameters(), 1.0).item())]


def test_a_checkpoint_between_two_parts_goes_on_with_the_same_bits(tmp_path):
    def train(model, accumulation, first, last):
        for i in range(first, last):
            part = X[i : i + 3], Y[i : i + 3]
            accumulation.backward(nn.mse(model(part[0]), part[1]), weight=3)
            accumulation.step()

    model, optimizer = build()
    accumulation = nn.GradientAccumulation(optimizer, 4)
    train(model, accumulation, 0, 6)
    nn.save_checkpoint(tmp_path / "a", model, optimizer, parts={"accumulation": accumulation})
    train(model, accumulation, 6, 9)

    twin, optimizer = build(seed=9)
    accumulation = nn.GradientAccumulation(optimizer, 4)
    checkpoint = nn.load_checkpoint(tmp_path / "a")
    checkpoint.restore(twin, optimizer, parts={"accumulation": accumulation})
    assert repr(accumulation) == "GradientAccumulation(2 of 4 parts)"
    train(twin, accumulation, 6, 9)
    assert weights(twin) == weights(model)


def test_what_makes_no_sense_is_refused():
    model, optimizer = build()
    with pytest.raises(ModuleError, match="every=0"):
        nn.GradientAccumulation(optimizer, 0)
    accumulation = nn.GradientAccumulation(optimizer, 2)
    with pytest.raises(ModuleError, match="weight=0"):
        accumulation.backward(nn.mse(model(X), Y), weight=0)
    with pytest.raises(StateDictError, match="not the state"):
        accumulation.load_state_dict({})
    with pytest.raises(StateDictError, match="not the state"):
        accumulation.load_state_dict({"count": 1, "weight": 1.0, "tensors": {"1": [1.0]}})
    with pytest.raises(StateDictError, match=r"gradient 1 of the state is float32 \(3,\)"):
        accumulation.load_state_dict({"count": 1, "weight": 1.0, "tensors": {"1": ft.ones(3)}})
    assert accumulation.count == 0
