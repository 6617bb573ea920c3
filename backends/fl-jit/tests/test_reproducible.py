"""``ft.reproducible``: no choice depends on what came before, or on a clock."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels.autotune import Tuner
from fl_tensor.reproducible import is_reproducible


@pytest.fixture
def jit():
    with ft.use(JitBackend()) as backend:
        yield backend


def step(size: int = 1 << 20) -> ft.Tensor:
    x = ft.linspace(-3.0, 3.0, size)
    return ft.tanh(x * 0.3) + ft.exp(x) * x


def bits(x: ft.Tensor) -> bytes:
    return bytes(x.tobytes())


def test_it_holds_for_a_block_and_can_be_taken_back():
    assert not is_reproducible()
    with ft.reproducible():
        assert is_reproducible()
        with ft.reproducible(False):
            assert not is_reproducible()
        assert is_reproducible()
    assert not is_reproducible()


def test_one_object_can_be_entered_again():
    block = ft.reproducible()
    with block, block:
        assert is_reproducible()
    assert not is_reproducible()


def test_a_computation_has_the_same_bits_the_first_and_the_tenth_time(jit):
    with ft.reproducible():
        assert len({bits(step()) for _ in range(10)}) == 1
    assert len(jit.plans.entries()) == 1


def test_what_came_before_the_block_changes_nothing(jit):
    with ft.reproducible():
        fresh = bits(step()), bits(step(1 << 14))
    for _ in range(12):
        step().tolist(), step(1 << 14).tolist()
    jit.plans.wait()
    with ft.reproducible():
        assert (bits(step()), bits(step(1 << 14))) == fresh


def test_a_small_computation_is_never_planned_in_the_block(jit):
    with ft.reproducible():
        for _ in range(20):
            step(1 << 14).tolist()
    assert jit.plans.entries() == []


def test_what_nobody_needs_makes_no_computation_large(jit):
    """Weights that were drawn for a model, before others were loaded into it."""
    with ft.reproducible():
        for _ in range(5):
            ft.eval(step(8192))
        ft.randn((256, 256))
        ft.eval(step(8192))
    assert jit.plans.entries() == []


def test_recording_is_not_given_up_in_the_block(jit):
    jit.policy.rest = 1 << 40
    with ft.reproducible():
        step().tolist()
    assert len(jit.plans.entries()) == 1


def test_a_block_does_not_reach_what_was_requested_outside(jit):
    before = step()
    with ft.reproducible():
        inside = step()  # from here on the other is there
        assert jit.plans.entries() == []
    inside.tolist(), before.tolist()
    assert len(jit.plans.entries()) == 1


def test_arrays_in_another_order_of_axes_give_the_same_bits(jit):
    given = np.random.default_rng(0).normal(size=(64, 32, 1024)).astype(np.float32)
    turned = np.ascontiguousarray(given.transpose(0, 2, 1)).transpose(0, 2, 1)
    with ft.reproducible():
        found = [ft.from_dlpack(a) for a in (given, turned)]
        assert len({bits(ft.sum(ft.exp(x) * x, (0, 2))) for x in found}) == 1
    assert len(jit.plans.entries()) == 1


class NamedKernel:
    operands = ()

    def __init__(self, name: str) -> None:
        self.about = name

    def __call__(self, *addresses: int) -> None:
        pass


def test_kernels_are_chosen_by_a_rule_whatever_was_measured(tmp_path):
    tuner = Tuner({"library": "none"}, tmp_path)
    tuner._decisions["p"] = {"choice": "second", "us": {"first": 2.0, "second": 1.0}}
    candidates = {name: (lambda name=name: NamedKernel(name)) for name in ("first", "second")}
    assert tuner.choose("p", candidates).about == "second"
    with ft.reproducible():
        assert tuner.choose("p", candidates).about == "first"
        assert tuner.choose("q", candidates).about == "first"
    assert set(tuner.decisions()) == {"p"}  # nothing was measured
