"""Twenty compiled steps against eager ones: bits on `numpy`, distance from float64 on `jit`.

A step has a schedule, clipping, and two backward passes over halves of a batch. With
`FL_COMPILED_TRAINING=all` (nox -s compiled_training) each model meets each optimizer.
"""

from __future__ import annotations

import math
import os
from itertools import product

import pytest
from test_compile import MODELS, OPTIMIZERS

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

ALL = os.environ.get("FL_COMPILED_TRAINING") == "all"
STEPS, RESUMED = 20, 10
PAIRS = [*product(MODELS, OPTIMIZERS)]
if not ALL:  # each model once, with optimizers in turn
    PAIRS = [*zip(MODELS, ("Adam", "SGD", "LAMB", "Adafactor", "RMSprop"), strict=True)]
#: And whether in mixed precision.
CASES = [(*pair, amp) for pair in PAIRS for amp in (False, True)]
if not ALL:
    CASES = [(*pair, i % 2 == 1) for i, pair in enumerate(PAIRS)]
on_jit = pytest.mark.skipif("jit" not in ft.available_backends(), reason="fl-jit is not installed")


class Run:
    """A model, its optimizer and schedule, and a step that may be compiled."""

    def __init__(self, backend, model, optimizer, compiled, seed=1, *, dtype="float32", amp=False):
        make, self.size = MODELS[model]
        self.backend = backend
        with ft.use(backend):
            ft.seed(0)
            self.model, self.data = make(), ft.Generator(seed)
            self.model.to(ft.dtype(dtype))
            self.dtype = dtype
            self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
            self.schedule = nn.CosineAnnealingLR(self.optimizer, STEPS)
            self.scaler = nn.DynamicLossScaler(2.0**12) if amp else None
            self.step = nn.compile(self._step, strict=True) if compiled else self._step

    def _step(self, x, y):
        optimizer, scaler, losses = self.optimizer, self.scaler, []
        optimizer.zero_grad()
        for part in (slice(0, 3), slice(3, 8)):
            with ag.autocast("DEFAULT" if scaler is None else "O1"):
                loss = nn.cross_entropy(self.model(x[part]), y[part])
            (loss if scaler is None else scaler.scale(loss)).backward(len(y[part]) / 8)
            losses.append(loss)
        if scaler is None or scaler.unscale(optimizer):
            nn.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
        return sum(losses)

    def losses(self, steps=STEPS):
        found = []
        with ft.use(self.backend):
            for _ in range(steps):
                x, y = self.data.normal((8, self.size)), self.data.integers(0, 3, (8,))
                found.append(self.step(x.astype(self.dtype), y).item())
                self.schedule.step()
        return found

    def plain(self):
        """Without what is random."""
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        return self

    def state(self):
        state = self.optimizer.state_dict()
        tensors = {**self.model.state_dict(), **state["tensors"]}
        return {k: v.numpy().tobytes() for k, v in tensors.items()}, state["numbers"]

    @property
    def parts(self):
        parts = {"schedule": self.schedule, "scaler": self.scaler}
        return {name: part for name, part in parts.items() if part is not None}

    def save(self, path):
        nn.save_checkpoint(path, self.model, self.optimizer, parts=self.parts)
        self.streams = self.data.state(), ft.default_generator().state()

    def resume(self, path, streams):
        with ft.use(self.backend):
            nn.load_checkpoint(path).restore(self.model, self.optimizer, parts=self.parts)
        self.data.set_state(streams[0])
        ft.default_generator().set_state(streams[1])


@pytest.mark.parametrize(("model", "optimizer", "amp"), CASES)
def test_twenty_steps_have_the_bits_of_eager_ones(model, optimizer, amp):
    eager, compiled = (Run("numpy", model, optimizer, c, amp=amp) for c in (False, True))
    assert compiled.losses() == eager.losses()
    assert compiled.state() == eager.state()
    assert compiled.step.compiled_calls >= STEPS - 2, compiled.step.explain()


@pytest.mark.parametrize(("model", "optimizer", "amp"), CASES)
def test_a_run_resumed_from_a_checkpoint_has_the_bits_of_one_without_a_break(
    model, optimizer, amp, tmp_path
):
    whole = Run("numpy", model, optimizer, True, amp=amp)
    losses = whole.losses()
    first = Run("numpy", model, optimizer, True, amp=amp)
    begun = first.losses(RESUMED)
    first.save(tmp_path / "checkpoint")
    second = Run("numpy", model, optimizer, True, amp=amp)
    second.losses(2)  # it has graphs, and state of its own
    second.resume(tmp_path / "checkpoint", first.streams)
    assert begun + second.losses(STEPS - RESUMED) == losses
    assert second.state() == whole.state()
    assert second.step.compiled_calls >= STEPS - RESUMED - 2


@on_jit
@pytest.mark.parametrize(("model", "optimizer"), PAIRS)
def test_jit_agrees_at_first_and_stays_as_near_to_float64_as_eager_steps(model, optimizer):
    wanted, by_code, by_graph = [], [], []
    for seed in (1, 2):
        exact = Run("numpy", model, optimizer, False, seed, dtype="float64").plain()
        eager, compiled = (Run("jit", model, optimizer, c, seed).plain() for c in (False, True))
        for losses, run in ((wanted, exact), (by_code, eager), (by_graph, compiled)):
            losses += run.losses()
        assert by_graph[-STEPS:][:5] == pytest.approx(by_code[-STEPS:][:5], rel=5e-7)
    rounding = 2.0**-24 * math.hypot(*wanted)  # of the losses themselves
    of_eager, of_compiled = math.dist(by_code, wanted), math.dist(by_graph, wanted)
    assert of_compiled <= 1.5 * max(of_eager, rounding)


@on_jit
@pytest.mark.parametrize(("model", "optimizer"), PAIRS if ALL else PAIRS[:2])
def test_mixed_precision_on_jit(model, optimizer):
    eager, compiled = (Run("jit", model, optimizer, c, amp=True).losses() for c in (False, True))
    assert compiled == pytest.approx(eager, rel=1e-2)
