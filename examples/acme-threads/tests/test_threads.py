"""What the kit does not test: the parts, the setting, the pool and the memory manager."""

from __future__ import annotations

import threading

import pytest

import fl_memory
import fl_tensor as ft
from acme_threads import ThreadedBackend
from acme_threads.pool import WorkerPool
from fl_tensor.extend import threads


@pytest.fixture
def four_threads():
    before = ft.get_num_threads()
    ft.set_num_threads(4)
    yield
    ft.set_num_threads(before)


@pytest.mark.parametrize(
    "compute",
    [ft.exp, lambda x: ft.softmax(x, 1), lambda x: ft.max_pool(x, 2), lambda x: x + x.max()],
)
def test_results_are_those_of_numpy_bit_for_bit(compute, four_threads):
    host = ft.randn((7, 8, 40, 40), backend="numpy")
    assert compute(host.to(ThreadedBackend())).tolist() == compute(host).tolist()


def test_a_range_is_divided_among_the_threads(four_threads):
    pool, seen, there = WorkerPool("test"), [], threading.Barrier(4, timeout=30)

    def note(part):
        there.wait()  # all four at once
        seen.append((part.start, part.stop))

    pool.run(note, 10)
    assert sorted(seen) == [(0, 2), (2, 5), (5, 7), (7, 10)]


def test_parts_that_divide_again_do_not_wait_for_one_another(four_threads):
    pool, seen = WorkerPool("test"), []
    pool.run(lambda part: pool.run(lambda inner: seen.append(inner), 8), 4)
    covered = sum(part.stop - part.start for part in seen)
    assert covered == 4 * 8


def test_an_error_of_any_part_is_raised(four_threads):
    def fail(part):
        if part.start == 5:
            raise ValueError("part 5")

    with pytest.raises(ValueError, match="part 5"):
        WorkerPool("test").run(fail, 10)


def test_the_pool_follows_the_number_of_threads(four_threads):
    ThreadedBackend()
    (pool,) = [each for each in threads.pools() if each.name == "acme-threads"]
    assert pool.state() == "4 at most"
    ft.set_num_threads(2)
    assert pool.state() == "2 at most"


def test_results_lie_in_blocks_of_the_manager_in_use(four_threads):
    x = ft.ones((64, 4096), backend=ThreadedBackend())
    with fl_memory.use("caching") as manager:
        before = manager.stats().live_bytes
        y = ft.exp(x)
        assert manager.stats().live_bytes - before >= 64 * 4096 * 4
        assert y.shape == x.shape


def test_a_setting_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("FL_ACME_THREADS_SMALLEST", "many")
    with pytest.raises(ft.ArgumentError, match="FL_ACME_THREADS_SMALLEST='many': expected a numb"):
        ThreadedBackend()
