"""What a plan needs at once is taken from the memory manager in one piece."""

from __future__ import annotations

import pytest

import fl_memory as mem
import fl_tensor as ft
from fl_memory.managers.caching import CachingManager
from fl_tensor.backends.jit import JitBackend, reserve


def products(x, weights):
    # Of growing size, each dead when the next one is there: none fits where another was.
    for w in weights:
        x = x @ w
    return x


@pytest.fixture
def manager():
    made = CachingManager()
    with mem.use(made):
        yield made


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.setattr(reserve, "LEAST", 1 << 20)
    made = JitBackend()
    made.plans.background, made.plans.sightings = False, 1
    with ft.use(made):
        yield made


SIZES = (8, 700, 800, 900, 1000)


def operands():
    made = [ft.ones((4096, SIZES[0])), *(ft.ones(pair) for pair in zip(SIZES, SIZES[1:]))]
    ft.eval(*made)
    return made[0], made[1:]


def test_a_plan_takes_no_buffer_for_each_of_its_results(backend, manager):
    x, weights = operands()
    buffers = []
    for _ in range(2):  # what a plan needs is taken before it runs first
        manager.release_cached()
        before = manager.stats().native_allocs
        ft.eval(products(x, weights))
        buffers.append(manager.stats().native_allocs - before)
    assert buffers == [2, 4]


def test_a_manager_that_keeps_no_memory_is_left_alone(backend):
    with mem.use("system") as manager:
        x, weights = operands()
        assert products(x, weights)[0, 0].item() == 8 * 700 * 800 * 900
        assert manager.stats().cached_bytes == 0
