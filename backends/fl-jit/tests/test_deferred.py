"""``jit`` defers operations: only time and memory differ from eager execution."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.traces import lazy
from fl_tensor.backends.numpy import NumpyBackend

N = 10_000


class Counting(NumpyBackend):
    """NumPy, with the names of the operations that it runs."""

    CONTRACT = (1, 1)

    def __init__(self):
        self.ran = []


for _name in ("add", "multiply", "exp", "sum", "matmul"):

    def _operation(self, *arguments, _name=_name):
        self.ran.append(_name)
        return getattr(NumpyBackend, _name)(self, *arguments)

    setattr(Counting, _name, _operation)


@pytest.fixture
def jit():
    """A backend of its own, which runs every trace call by call and says what it ran."""
    backend = JitBackend()
    backend.eager = backend.plans.eager = Counting()
    backend.plans.compile_after = 1 << 30
    with ft.use(backend):
        yield backend


def ran(jit):
    found, jit.eager.ran = jit.eager.ran, []
    return found


def test_nothing_runs_before_somebody_looks(jit):
    x = ft.full(N, 2.0)
    y = ft.exp(x) * x + x
    assert ran(jit) == []
    assert (y.shape, y.dtype) == ((N,), ft.float32)
    assert y[0].item() == pytest.approx(np.exp(2.0) * 2.0 + 2.0, rel=1e-6)
    assert ran(jit) == ["exp", "multiply", "add"]


def test_whether_it_has_run_is_known_without_running_it(jit):
    x = ft.asarray(np.ones(N, np.float32))
    y = ft.exp(x)
    assert ft.is_ready(x) and not ft.is_ready(y) and not ft.is_ready(x, y)
    assert ran(jit) == []
    ft.eval(y)
    assert ft.is_ready(x, y)


@pytest.mark.parametrize(
    "look",
    [
        lambda y: np.asarray(y),
        lambda y: y.tolist(),
        lambda y: repr(y),
        lambda y: bool(ft.all(y == y)),
        lambda y: ft.eval(y),
        lambda y: ft.synchronize(backend=y.backend),
        lambda y: ft.sort(y),
        lambda y: memoryview(y.tobytes()),
    ],
    ids=["numpy", "tolist", "repr", "bool", "eval", "synchronize", "sort", "tobytes"],
)
def test_looking(jit, look):
    y = ft.full(N, 1.0) + 1.0
    look(y)
    assert "add" in ran(jit)


def test_what_was_computed_once_is_not_computed_again(jit):
    y = ft.exp(ft.full(N, 1.0))
    z = y + y
    z.tolist()
    w = y + z
    w.tolist()
    assert ran(jit) == ["exp", "add", "add"]


def test_what_nobody_can_see_is_never_computed(jit):
    x = ft.full(N, 1.0)
    y = ft.exp(x)
    ft.exp(x) @ ft.exp(x)
    y = y + 1.0
    y.tolist()
    assert ran(jit) == ["exp", "add"]


def test_small_operations_run_at_once(jit):
    x = ft.asarray([1.0, 2.0])
    assert type(ft.exp(x + x).adapter) is type(x.adapter)


def test_errors_come_from_the_line_that_is_wrong(jit):
    x = ft.full((N, 2), 1.0) + 1.0
    with pytest.raises(ft.ShapeError, match=r"\[matmul\] .*\(10000, 2\)"):
        x @ x
    with pytest.raises(ft.ShapeError, match="do not broadcast"):
        x + ft.ones(3)
    with pytest.raises(IndexError, match="out of range"):
        ft.gather(x, ft.asarray([N]), 0)
    with pytest.raises(ft.DTypeError):
        x << 1
    assert ran(jit) == []


def test_integer_powers_refuse_negative_exponents_at_once(jit):
    with pytest.raises(ft.ArgumentError, match="negative"):
        ft.full(N, 2) ** ft.full(N, -1)


def test_a_value_keeps_its_value_when_a_handle_is_assigned_to(jit):
    x = ft.full(N, 1.0)
    y = x + 1.0
    z = y.copy()
    y[0] = 7.0
    x[1] = 9.0
    assert z[:2].tolist() == [2.0, 2.0]
    assert y[:2].tolist() == [7.0, 2.0]


@pytest.mark.parametrize("place", [slice(3, 5), [3, 4]], ids=["slice", "indices"])
@pytest.mark.parametrize("read", [False, True])
def test_assignment_to_a_large_array_is_made_in_place(jit, place, read):
    x = ft.full(N, 1.0)
    ft.eval(x)
    address = np.asarray(x).ctypes.data
    y = x + 1.0 if read else None
    x[place] = 7.0
    assert np.asarray(x).ctypes.data == address
    assert x[2:5].tolist() == [1.0, 7.0, 7.0]
    assert y is None or y[2:5].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("place", [slice(3, 5), [3, 4]], ids=["slice", "indices"])
def test_assignment_reaches_no_view(jit, place):
    x = ft.full(N, 1.0) + 1.0
    y = x[::-1]
    z = x + 1.0
    ft.eval(x, y)
    x[place] = 7.0
    assert y[-5:].tolist() == [2.0] * 5 and z[3].item() == 3.0


def test_results_lie_in_the_manager_that_was_installed(jit):
    x = ft.full(N, 1.0)
    x.tolist()
    with fl_memory.use(type(fl_memory.get("caching"))()) as manager:
        y = x + x
    y.tolist()
    assert manager.stats().live_bytes >= y.nbytes
    del y
    gc.collect()
    assert manager.stats().live_bytes == 0


def test_intermediate_results_die_on_the_way(jit):
    x = ft.full(N, 1.0)
    x.tolist()
    with fl_memory.use(type(fl_memory.get("system"))(small_bytes=0)) as manager:
        y = x
        for _ in range(50):
            y = y + 1.0
        y.tolist()
        assert manager.stats().peak_live_bytes < 4 * y.nbytes


def test_a_value_may_be_finished_by_another_thread(jit):
    y = ft.full(N, 1.0) + 1.0
    found = []

    def work():
        z = y * 3.0
        found.append(z[0].item())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [6.0] and y[0].item() == 2.0


def test_threads_do_not_wait_for_each_other(jit):
    results = {}

    def work(k):
        y = ft.full(N, float(k))
        for _ in range(30):
            y = y + 1.0
        results[k] = y[0].item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: k + 30.0 for k in range(8)}


def test_an_override_still_replaces_every_add(jit):
    seen = []

    def add(inner, x, y):
        seen.append(x.shape)
        return inner.add(x, y)

    with ft.override(add=add):
        y = ft.layer_norm(ft.full((100, 100), 1.0) + 1.0)
    y.tolist()
    assert len(seen) > 1


def test_a_failure_is_raised_again_by_whoever_looks_again(jit):
    class Broken(Counting):
        CONTRACT = (1, 1)

        def exp(self, x):
            raise MemoryError("no room")

    x = ft.exp(ft.full(N, 1.0))
    jit.plans.eager = Broken()
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            np.asarray(x.adapter.array)
    jit.plans.eager = NumpyBackend()
    assert x[0].item() == pytest.approx(np.e)


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(lazy, "MOST_BYTES", 40 * N)
    monkeypatch.setattr(lazy, "FIRST_BYTES_CHECK", 4)


def test_operands_of_the_computation_alone_are_freed(jit, little_memory):
    total = ft.full(N, 0.0)
    for _ in range(40):
        x = ft.full(N, 1.0)
        x.tolist()
        total = total + x
        del x
    assert "add" in ran(jit)
    assert len(jit._pending.calls) < 20


def test_results_that_somebody_waits_for_are_counted(jit, little_memory):
    x = ft.full(N, 1.0)
    held = [ft.exp(x) for _ in range(40)]
    assert "exp" in ran(jit)
    assert len(held) == 40 and len(jit._pending.calls) < 20


def test_shared_operands_and_dead_results_do_not_count(jit, little_memory):
    held = [ft.asarray(np.ones(N, np.float32)) for _ in range(40)]
    y = held[0]
    for x in held:
        y = y * x
    assert ran(jit) == []
    assert y[0].item() == 1.0


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("lengths", [None, (3, 0, 5, 4)])
@pytest.mark.parametrize("cell, gates, kept", [("lstm", 4, 2), ("gru", 3, 1), ("tanh", 1, 1)])
def test_a_recurrence_is_deferred_and_planned(cell, gates, kept, lengths, biased):
    rng = np.random.default_rng(1)
    shapes = (5, 4, gates * 8), (kept, 4, 8), (gates * 8, 8), (gates * 8,)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes[: 3 + biased]]
    backend = JitBackend()
    backend.smallest = 1

    def states():
        x, *rest = map(ft.asarray, arrays)
        return ft.recurrent(x * 2.0, *rest, cell=cell, lengths=lengths, reverse=True) + 1.0

    with ft.use("numpy"):
        want = np.asarray(states())
    with ft.use(backend):
        for _ in range(3):
            found = states()
            assert len(backend._pending.calls) == 3
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5, atol=1e-6)
        with pytest.raises(ft.ShapeError, match="recurrent"):
            ft.recurrent(
                ft.asarray(arrays[0][:, :, 1:]) * 2.0, *map(ft.asarray, arrays[1:]), cell=cell
            )
