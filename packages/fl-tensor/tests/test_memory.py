"""Results of small_bytes or more lie in the installed manager's blocks, whatever made them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft

N = 4096  # float32 elements: 16 KiB, above the threshold


def live(manager):
    return manager.stats().live_bytes


OPERATIONS = {
    "full": lambda x: ft.ones(N),
    "asarray": lambda x: ft.asarray(np.zeros(N, np.float32)),
    "add": lambda x: x + x,
    "broadcast add": lambda x: ft.ones((N, 1)) + ft.ones((1, 2)),
    "exp": lambda x: ft.exp(x),
    "erf": lambda x: ft.erf(x),
    "less": lambda x: ft.ones(2 * N) < 1,
    "sum": lambda x: ft.ones((2, N)).sum(0),
    "cumulative_sum": lambda x: ft.cumulative_sum(x),
    "matmul": lambda x: x.reshape(64, 64) @ x.reshape(64, 64),
    "conv": lambda x: ft.conv(x.reshape(1, 1, 64, 64), ft.ones((2, 1, 3, 3)), padding=1),
    "where": lambda x: ft.where(x > 0, x, 0.0),
    "cast": lambda x: x.astype("float64"),
    "concatenate": lambda x: ft.concatenate([x, x]),
    "pad": lambda x: ft.pad(x, 1),
    "gather": lambda x: x[ft.arange(N)],
    "scatter": lambda x: ft.scatter(x, [0], [1.0]),
    "sort": lambda x: ft.sort(x),
    "argsort": lambda x: ft.argsort(x),
    "nonzero": lambda x: ft.nonzero(x)[0],
    "argmax": lambda x: ft.argmax(ft.ones((N, 2)), axis=1),
    "random": lambda x: ft.Generator(0).uniform(N),
    "arange": lambda x: ft.arange(N),
    "reshape of a permuted": lambda x: x.reshape(64, 64).T.reshape(-1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_large_result_is_a_block(name):
    x = ft.ones(N)
    with fl_memory.use("caching") as manager:
        gc.collect()
        before = live(manager)
        y = OPERATIONS[name](x)
        gc.collect()
        assert live(manager) - before >= y.nbytes
        view = y.numpy()
        del y
        gc.collect()
        assert live(manager) - before >= view.nbytes, "an export keeps the block alive"
        del view
        gc.collect()
        assert live(manager) == before, "the last reference sends it home"


def test_small_results_need_no_manager_unless_it_is_strict():
    with fl_memory.use("caching") as manager:
        allocations = manager.stats().allocs
        _ = ft.ones(4) + 1
        assert manager.stats().allocs == allocations


def test_a_strict_manager_gets_every_byte():
    strict = type(fl_memory.get("system"))(small_bytes=0)
    with fl_memory.use(strict) as manager:
        x = ft.ones(4) + 1
        assert live(manager) >= x.nbytes


def test_swapping_managers_in_mid_run_loses_nothing():
    system, caching = fl_memory.get("system"), fl_memory.get("caching")
    before = live(system), live(caching)
    with fl_memory.use(system):
        x = ft.ones(N)
    with fl_memory.use(caching):
        y = x + 1
        assert live(system) - before[0] >= x.nbytes
        assert live(caching) - before[1] >= y.nbytes
        del x
        gc.collect()
        assert live(system) == before[0], "blocks go home to the manager that made them"
    assert y.sum().item() == 2 * N
    del y
    gc.collect()
    assert live(caching) == before[1]


def test_a_strict_manager_is_asked_for_the_smallest_result_from_its_first_use_on() -> None:
    x = ft.asarray([1.0, 2.0])
    x + x  # of a size that no manager in use has asked for so far
    strict = type(fl_memory.get("system"))(small_bytes=0)
    with fl_memory.use(strict):
        kept = [x + x, -x, ft.exp(x)]
        assert strict.stats().live_blocks == len(kept)
