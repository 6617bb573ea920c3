"""Results of small_bytes or more lie in the installed manager's blocks, whatever made them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_memory.managers.system import SystemManager
from fl_memory.testing import CheckedManager
from fl_tensor import dtypes
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.testing import CASES, wording
from fl_tensor.testing.harness import Harness

N = 4096  # float32 elements: 16 KiB, above the threshold


def live(manager):
    return manager.stats().live_bytes


def test_an_export_keeps_the_block_alive():
    with fl_memory.use("caching") as manager:
        gc.collect()
        before = live(manager)
        y = ft.ones(N) + 1
        view = y.numpy()
        del y
        gc.collect()
        assert live(manager) - before >= view.nbytes
        del view
        gc.collect()
        assert live(manager) == before, "the last reference sends it home"


def test_copies_of_reordered_values_are_blocks():
    x = ft.ones((64, 64)).T
    with fl_memory.use("caching") as manager:
        before = live(manager)
        y = x.reshape(-1)
        assert live(manager) - before >= y.nbytes


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


def test_a_strict_manager_gets_single_numbers_made_before_and_after_it():
    early = ft.asarray(2.0) * 3.0
    with fl_memory.use(type(fl_memory.get("system"))(small_bytes=0)) as manager:
        before = live(manager)
        late = early * early
        assert live(manager) - before >= late.nbytes
        total = late + ft.sum(ft.ones(4))
        assert live(manager) - before >= late.nbytes + total.nbytes
    assert total.item() == 40.0


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


def test_numpy_keeps_to_its_blocks_when_every_result_lies_in_one() -> None:
    """All samples again, strictly managed: same values, nothing written outside, nothing lost."""
    harness = Harness(NumpyBackend())
    found = []
    with fl_memory.use(CheckedManager(SystemManager(small_bytes=0))) as manager:
        for case in CASES.values():
            usual = (dtypes.float32, dtypes.int32, dtypes.complex64)
            dtype = next(d for d in usual if case.accepts(d))
            for sample in filter(harness.supports, case.draw(dtype)):
                call = wording.call(case.name, sample)
                found += [f"{call}: {p}" for p in harness.check(case, sample, dtype)]
        served = manager.stats().allocs
        del sample
        harness.backend.__dict__.clear()  # cached constants
        gc.collect()
        manager.verify()
        assert manager.leaks() == []
    assert found == []
    assert served > len(CASES)


@pytest.mark.parametrize("backend", ["numpy", "jit"])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_a_long_convolution_needs_memory_for_its_operands_alone(backend, dtype):
    """Not for the product of their lengths, which is 320 MB here."""
    if backend not in ft.available_backends():
        pytest.skip(f"{backend} is not installed")
    x, w = np.arange(40_000).astype(dtype), np.arange(1000).astype(dtype)
    with fl_memory.use("caching") as manager, ft.use(backend):
        found = ft.convolve(ft.asarray(x), ft.asarray(w)).numpy()
        assert manager.stats().peak_live_bytes < 20e6
    np.testing.assert_allclose(found, np.convolve(x, w), rtol=1e-12)


def test_a_sample_that_is_unfolded_in_parts_is_convolved_right():
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (2, 8, 200, 131)), rng.integers(-9, 9, (6, 4, 3, 4))
    found = ft.conv(ft.asarray(x, backend="numpy"), ft.asarray(w, backend="numpy"), 2, groups=2)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 4), (2, 3))[:, :, ::2, ::2]
    halves = [(windows[:, :4], w[:3]), (windows[:, 4:], w[3:])]
    wanted = [np.einsum("ncijkl,ockl->noij", part, kernel) for part, kernel in halves]
    assert (found.numpy() == np.concatenate(wanted, 1)).all()
