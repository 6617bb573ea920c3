"""Replace one operation, or the memory manager, under a whole training step."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

import fl_memory
import fl_nn as nn
import fl_tensor as ft


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2D(1, 4, 3, padding="same"),
        nn.BatchNorm(4),
        nn.ReLU(),
        nn.Pool2D(2),
        nn.View((-1, 4 * 16 * 16)),
        nn.LayerNorm(4 * 16 * 16),
        nn.Linear(4 * 16 * 16, 10),
    )


class Training:
    """A network, its optimizer and one batch; `step` trains once and returns the loss."""

    def __init__(self, optimizer=nn.Adam):
        ft.seed(3)
        self.model = network()
        self.optimizer = optimizer(self.model.parameters(), lr=0.01)
        self.x = ft.randn((8, 1, 32, 32))
        self.y = ft.Generator(4).integers(0, 10, 8)

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = nn.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


@pytest.fixture
def calls_of_the_backend(monkeypatch):
    """How often each operation reaches the base backend itself, counted below everything."""
    calls: Counter[str] = Counter()
    backend = ft.current_backend()
    original = type(backend).add

    def add(self, x, y):
        calls["add"] += 1
        return original(self, x, y)

    monkeypatch.setattr(type(backend), "add", add)
    return calls


@pytest.mark.parametrize("optimizer", [nn.SGD, nn.Adam], ids=lambda o: o.__name__)
def test_an_overridden_add_is_every_add_of_a_training_step(calls_of_the_backend, optimizer):
    training = Training(optimizer)
    phases: Counter[str] = Counter()

    def counting_add(inner, x, y):
        phases["add"] += 1
        return inner.add(x, y)

    before = calls_of_the_backend["add"]
    with ft.override(add=counting_add):
        training.step()
    assert phases["add"] == calls_of_the_backend["add"] - before, "no add went another way"
    assert phases["add"] > 10


@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer"])
def test_each_phase_of_a_step_adds_through_the_override(phase):
    training = Training()
    seen = []

    def counting_add(inner, x, y):
        seen.append((x.shape, y.shape))
        return inner.add(x, y)

    def only(name):
        return ft.override(**({"add": counting_add} if name == phase else {}))

    with only("forward"):
        loss = nn.cross_entropy(training.model(training.x), training.y)
    with only("backward"):
        loss.backward()
    with only("optimizer"):
        training.optimizer.step()
    assert seen


def test_a_wrong_add_changes_the_training():
    honest, wrong = Training(), Training()

    def too_much(inner, x, y):
        return inner.add(x, inner.add(y, y) if y.dtype.is_floating else y)

    with ft.override(add=too_much):
        wrong.step()
    honest.step()
    assert honest.step() != wrong.step()


@pytest.mark.fl_heavy
def test_swapping_the_memory_manager_between_steps_changes_no_bit_and_loses_no_byte():
    reference = Training()
    expected = [reference.step() for _ in range(4)]
    del reference

    managers = [fl_memory.get("system"), fl_memory.get("caching")]
    gc.collect()
    before = [m.stats() for m in managers]
    with fl_memory.use(managers[0]):
        training = Training()
    losses = []
    for i in range(4):
        with fl_memory.use(managers[i % 2]):
            losses.append(training.step())
    assert losses == expected

    during = [m.stats() for m in managers]
    for old, new in zip(before, during, strict=True):
        assert new.allocs > old.allocs, "both managers served steps"
        assert new.live_blocks - old.live_blocks == (new.allocs - old.allocs) - (
            new.frees - old.frees
        )
    assert sum(n.live_bytes - o.live_bytes for o, n in zip(before, during, strict=True)) > 0
    del training
    gc.collect()
    after = [m.stats() for m in managers]
    for old, new in zip(before, after, strict=True):
        assert new.live_bytes == old.live_bytes, "every block went home to its own manager"
        assert new.allocs - old.allocs == new.frees - old.frees
        assert new.peak_live_bytes >= old.peak_live_bytes, "statistics survive the swap"
