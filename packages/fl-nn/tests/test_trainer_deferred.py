"""A step of the Trainer on a deferred backend: one computation, as in the loop written by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft

STEPS = 6


@pytest.fixture(autouse=True)
def jit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The backend, putting everything off, and planning what it sees twice."""
    pytest.importorskip("fl_jit", reason="the deferred backend is not installed")
    backend = ft.get_backend("jit")
    monkeypatch.setattr(backend, "smallest", 1)
    monkeypatch.setattr(backend.plans, "background", False)
    monkeypatch.setattr(backend.plans.policy, "patience", 0)
    monkeypatch.setattr(backend.plans.policy, "rest", 0)
    with ft.use("jit"):
        yield backend


def perceptron(width: int) -> tuple[nn.Module, ft.Tensor]:
    layers = nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3), nn.LogSoftmax()
    return nn.Sequential(*layers), ft.randn((8, 6))


def convolutions(width: int) -> tuple[nn.Module, ft.Tensor]:
    layers = nn.Conv2D(2, width, 3, padding=1), nn.BatchNorm(width), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(width * 25, 3), nn.LogSoftmax()), ft.randn((4, 2, 5, 5))


def attention(width: int) -> tuple[nn.Module, ft.Tensor]:
    layers = nn.TransformerEncoderLayer(width, 2, 2 * width), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(5 * width, 3), nn.LogSoftmax()), ft.randn((4, 5, width))


MODELS = {"perceptron": perceptron, "convolutions": convolutions, "attention": attention}
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: nn.SGD(p, lr=1e-3),
    "momentum": lambda p: nn.SGD(p, lr=1e-3, momentum=0.9),
    "Adam": lambda p: nn.Adam(p, lr=1e-3),
}


def by_hand(model: nn.Module, optimizer: nn.Optimizer, batch: Any, clipped: bool) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.mse(model(batch[0]), batch[1])
        loss.backward()
        if clipped:
            nn.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()


def by_trainer(model: nn.Module, optimizer: nn.Optimizer, batch: Any, clipped: bool) -> None:
    callbacks = [nn.ClipGradNorm(1.0)] if clipped else []
    run = nn.Trainer(model, optimizer, nn.mse, progress=False, callbacks=callbacks)
    for _ in range(STEPS):
        run.train_step(batch)


#: Widths of layers: with one of its own nobody finds the plans of another.
WIDTHS = itertools.count(20, 2)


def plans_made(train: Any, name: str, optimizer: str, clipped: bool) -> int:
    ft.seed(0)
    model, x = MODELS[name](next(WIDTHS))
    batch = x, ft.randn((x.shape[0], 3))
    ft.eval(*batch, *model.parameters())
    ft.jit.wait()  # plans of earlier tests that are compiled in the background are not counted
    before = {id(plan): plan for plan in ft.jit.plans()}
    train(model, OPTIMIZERS[optimizer](model.parameters()), batch, clipped)
    return sum(id(plan) not in before for plan in ft.jit.plans())


@pytest.mark.defect("B4")
@pytest.mark.parametrize("clipped", [False, True], ids=["", "clipped"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_the_trainer_makes_no_more_plans_than_the_loop_by_hand(
    name: str, optimizer: str, clipped: bool
) -> None:
    plain = plans_made(by_hand, name, optimizer, clipped)
    assert 0 < plans_made(by_trainer, name, optimizer, clipped) <= plain


def test_the_bits_are_those_of_the_loop_by_hand() -> None:
    found = []
    for train in (by_hand, by_trainer):
        ft.seed(0)
        model, x = perceptron(16)
        train(model, nn.Adam(model.parameters(), lr=0.01), (x, ft.randn((8, 3))), False)
        found.append({name: value.tolist() for name, value in model.state_dict().items()})
    assert found[0] == found[1]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("broken", [0, 3], ids=["first step", "later step"])
def test_weights_and_state_are_those_before_the_step_that_is_not_finite(
    optimizer: str, broken: int
) -> None:
    ft.seed(0)
    model, x = perceptron(16)
    target = ft.randn((8, 3))
    run = nn.Trainer(model, OPTIMIZERS[optimizer](model.parameters()), nn.mse, progress=False)
    for _ in range(broken):
        run.train_step((x, target))
    before = _values(run)
    with pytest.raises(nn.TrainingError, match=rf"loss is nan .*\(step {broken + 1}\)"):
        run.train_step((x, target * math.nan))
    assert _values(run) == before and run.step == broken
    run.train_step((x, target))
    assert math.isfinite(run.last_loss) and _values(run) != before


def _values(run: nn.Trainer) -> Any:
    state = run.optimizer.state_dict()
    tensors = {**run.model.state_dict(), **state["tensors"]}
    return {name: value.tolist() for name, value in tensors.items()}, state["numbers"]


def test_a_gradient_sum_that_overflows_does_not_skip_the_step() -> None:
    class Steep(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(ft.zeros(4))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    model = Steep()
    optimizer = nn.SGD(model.parameters(), lr=1e-38)
    run = nn.Trainer(model, optimizer, lambda o, t: ft.sum(o) * 3e38, progress=False)
    run.train_step((ft.ones((1, 4)), ft.ones((1, 4))))
    assert run.step == 1 and model.weight.tolist() == pytest.approx([-3.0] * 4)


def test_meters_see_the_output_that_the_step_was_made_of() -> None:
    model, x = perceptron(16)
    optimizer, seen = nn.SGD(model.parameters(), lr=0.1), []

    class Watch(nn.MSEMeter):
        def add(self, output: Any, target: Any) -> None:
            seen.append(nn.mse(output, target).item())
            super().add(output, target)

    run = nn.Trainer(model, optimizer, nn.mse, meters={"seen": Watch()}, progress=False)
    target = ft.randn((8, 3))
    before = nn.mse(model(x), target).item()
    loss = run.train_step((x, target))
    assert seen == [pytest.approx(before)] == [pytest.approx(loss)]


def test_what_is_accumulated_is_computed_part_by_part_and_equals_the_whole() -> None:
    ft.seed(0)
    (one, x), (other, _) = perceptron(16), perceptron(16)
    other.load_state_dict(one.state_dict())
    target = ft.randn((8, 3))
    losses = [
        nn.Trainer(m, nn.SGD(m.parameters(), lr=0.1), nn.mse, progress=False).train_step(*batches)
        for m, batches in (
            (one, [(x, target)]),
            (other, [(x[:3], target[:3]), (x[3:], target[3:])]),
        )
    ]
    assert losses[0] == pytest.approx(losses[1])
    assert nn.all_params_close(one, other, rtol=1e-4, atol=1e-6)
