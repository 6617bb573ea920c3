"""`ft.override(add=...)` is every addition of a Transformer's training step: forward, backward and
AdamW. What reaches the backend is counted below everything, in the class of the backend itself."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_autograd import extend
from fl_autograd.rules import RULES
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dispatch.stack import operation_names

PHASES = ("forward", "backward", "optimizer")


class Composed(extend.Tape):
    """A tape without fused rules: every derived operation is recorded as its pieces."""


for _name in RULES:
    if hasattr(DerivedOps, _name):
        setattr(Composed, _name, getattr(DerivedOps, _name))


RULES_USED = pytest.mark.parametrize(
    "rules", [nullcontext, lambda: extend.using(Composed)], ids=["fused rules", "no fused rules"]
)


class Training:
    """A language model and one batch; a function per phase of a step."""

    def __init__(self):
        ft.seed(3)
        self.model = nn.Sequential(
            nn.Embedding(11, 8),
            nn.PositionEmbedding(6, 8, dropout=0.1),
            nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, relative=4),
            nn.TransformerEncoderLayer(8, 4, 16, activation="gelu", kv_heads=2, rotary=100.0),
            nn.LayerNorm(8),
            nn.Linear(8, 11),
        )
        self.optimizer = nn.AdamW(self.model.parameters())
        self.words = ft.Generator(4).integers(0, 11, (2, 6))

    def forward(self, call=lambda layer, x, **options: layer(x, **options)):
        x = self.words
        for layer in self.model:
            causal = isinstance(layer, nn.TransformerEncoderLayer)
            x = call(layer, x, causal=True) if causal else call(layer, x)
        self.loss = nn.cross_entropy(x, self.words, axis=-1)

    def backward(self):
        self.loss.backward()

    def optimize(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def step(self, around):
        for phase, run in zip(PHASES, (self.forward, self.backward, self.optimize)):
            with around(phase):
                run()
        return self.loss.item()


@pytest.fixture
def reached(monkeypatch):
    """Adds that reached the backend, under the name of the phase in `reached.phase`."""

    class Reached(Counter):
        phase = ""

    calls = Reached()
    backend = type(ft.current_backend())
    original = backend.add

    def add(self, x, y):
        calls[calls.phase] += 1
        return original(self, x, y)

    monkeypatch.setattr(backend, "add", add)
    return calls


@RULES_USED
def test_an_overridden_add_is_every_add_of_each_phase(rules, reached):
    seen = Counter()
    training = Training()

    def counting(phase):
        reached.phase = phase

        def add(inner, x, y):
            seen[phase] += 1
            return inner.add(x, y)

        return ft.override(add=add)

    with rules():
        for _ in range(2):  # in the second step the optimizer has a state
            training.step(counting)
    print(dict(seen))
    assert seen == {phase: reached[phase] for phase in PHASES}
    assert seen["forward"] > 30 and seen["backward"] > 30
    assert seen["optimizer"] == 6  # three additions of AdamW in each step, for all parameters


def test_derived_operations_of_the_backend_hide_no_addition(reached):
    """Without any override, on a backend that writes no derived operation itself, as many reach the
    backend."""
    seen = Counter()
    with ft.override(add=lambda inner, x, y: seen.update(["add"]) or inner.add(x, y)):
        Training().step(nullcontext)
    derived = {name: f for name, f in vars(DerivedOps).items() if operation_names() >= {name}}
    backend = type(ft.current_backend())
    with ft.use(type("Bare", (backend,), {"CONTRACT": backend.CONTRACT, **derived})()):
        reached.clear()
        Training().step(nullcontext)
    assert reached.total() == seen.total()


def test_additions_of_what_a_checkpoint_computes_again_are_counted_too(reached):
    seen = Counter()

    def add(inner, x, y):
        seen[ag.is_recomputing()] += 1
        return inner.add(x, y)

    training = Training()
    reached.clear()
    with ft.override(add=add):
        training.forward(ag.checkpoint)
    with ft.override(add=add):
        training.backward()
    assert sum(seen.values()) == reached.total()
    assert seen[True] > 10


@RULES_USED
def test_without_the_override_the_training_is_the_same(rules):
    """What was counted is the ordinary step."""
    counted, plain = Training(), Training()
    with rules():
        for _ in range(3):
            one = counted.step(lambda phase: ft.override(add=lambda inner, x, y: inner.add(x, y)))
            other = plain.step(nullcontext)
            assert one == pytest.approx(other, rel=1e-5)


def test_the_tape_without_fused_rules_records_more():
    def recorded(rules):
        names = []

        class Names(extend.Recorder):
            def recorded(self, node, result):
                names.append(node.name)
                return node

        training = Training()
        with rules(), Names():
            training.forward()
        return names

    fused, pieces = recorded(nullcontext), recorded(lambda: extend.using(Composed))
    assert {"layer_norm", "attention"} <= set(fused)
    assert not {"layer_norm", "attention", "softmax", "gelu", "linear"} & set(pieces)
    assert len(pieces) > len(fused)
