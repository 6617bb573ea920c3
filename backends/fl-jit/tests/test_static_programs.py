"""Plans of ft.compile on fixed memory."""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import fl_jit
import fl_memory
import fl_tensor as ft
from fl_jit.planning.memory_assignment import Interval, assign_offsets
from fl_jit.steps.operation import Operation
from fl_tensor.graph.capture import TensorSlot
from fl_tensor.graph.compiled import Compiled, Stateless


@pytest.fixture(autouse=True)
def jit():
    with ft.use("jit"):
        yield


def array(*shape, seed=0):
    return ft.Generator(seed).normal(shape)


class Weights:
    """Arrays that a step replaces."""

    def __init__(self, seed=1):
        self.w, self.m = array(48, 24, seed=seed), ft.zeros((48, 24))

    def compiled(self, function):
        state = WeightsState(self)
        return Compiled(lambda *x: function(self, *x), state, strict=True)


class WeightsState(Stateless):
    owned = (*Stateless.owned, Weights)

    def __init__(self, weights):
        super().__init__(descend)
        self.weights = weights

    def slots(self):
        put = partial(partial, setattr, self.weights)
        slots = [TensorSlot(k, partial(getattr, self.weights, k), put(k)) for k in "wm"]
        return slots, super().slots()[1]

    @contextmanager
    def preserved(self):
        before = dict(vars(self.weights))
        with super().preserved():
            yield
        vars(self.weights).update(before)


def descend(held, x):
    """A step on a quadratic: reads and replaces ``w`` and ``m``."""
    residual = x @ held.w
    held.m = held.m * 0.9 + ft.permute(x, (1, 0)) @ residual * 0.01
    held.w = held.w - held.m * 0.1
    return ft.sum(residual * residual)


def program(made):
    """The static program of a compiled function that has one graph and one layout."""
    ((executable,),) = made._executables.values()
    (runs,) = executable.run._plans.values()
    return runs.program


def test_state_is_overwritten_in_place():
    def shrink(held, x):
        held.m = held.m * 0.9 + held.w * x
        held.w = held.w - held.m * 0.1

    state, x = Weights(), array(48, 24)
    step = state.compiled(shrink)
    for _ in range(6):
        step(x)
    before = {getattr(state, k).adapter.array.ctypes.data for k in "wm"}
    for _ in range(5):
        step(x)
    assert {getattr(state, k).adapter.array.ctypes.data for k in "wm"} == before


def test_losses_and_state_equal_those_of_the_function():
    state, plain = Weights(), Weights()
    step = state.compiled(descend)
    for i in range(8):
        x = array(32, 48, seed=10 + i)
        np.testing.assert_allclose(step(x).numpy(), descend(plain, x).numpy(), rtol=2e-6)
    for k in "wm":
        got, wanted = getattr(state, k).numpy(), getattr(plain, k).numpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_state_that_others_hold_is_not_overwritten():
    state, x = Weights(), array(32, 48)
    step = state.compiled(descend)
    for _ in range(6):
        step(x)
    for hold in (lambda t: t, lambda t: t.numpy(), lambda t: ft.permute(t, (1, 0))):
        held = hold(state.w)
        values = np.array(held if isinstance(held, np.ndarray) else held.numpy())
        step(x)
        after = held if isinstance(held, np.ndarray) else held.numpy()
        assert (values == after).all()


def test_results_of_earlier_calls_stay():
    step = ft.compile(lambda x: (ft.exp(x), ft.sum(x * 2, 1), x @ ft.permute(x, (1, 0))))
    found = [step(array(32, 32, seed=i)) for i in range(6)]
    for i, results in enumerate(found):
        x = array(32, 32, seed=i).numpy()
        for got, wanted in zip(results, (np.exp(x), (x * 2).sum(1), x @ x.T), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_operands_in_other_memory_and_of_other_strides():
    step = ft.compile(lambda x, y: ft.sum(ft.tanh(x) * y, 1))
    for i in range(6):
        x, y = array(40, 24, seed=i), array(40, 24, seed=i + 10)
        if i % 2:
            x = ft.permute(array(24, 40, seed=i), (1, 0))
        wanted = (np.tanh(x.numpy()) * y.numpy()).sum(1)
        np.testing.assert_allclose(step(x, y).numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("values", [(1.5, 2.5, 2.5, -1.0), (0.0, -0.0, 0.0, -0.0)])
def test_numbers_are_read_at_each_call(values):
    step = ft.compile(lambda x, p: (x * p, x @ ft.permute(x, (1, 0)) + p))
    x = ft.ones((16, 16))
    for p in (3.0, 3.0, *values):
        scaled, product = step(x, p)
        assert (np.signbit(scaled.numpy()) == np.signbit(p)).all()
        assert (scaled.numpy() == p).all() and (product.numpy() == 16 + p).all()


def test_what_numpy_computes_runs_between():
    def f(x, w):
        y = ft.tanh(x @ w)
        z = ft.sort(y, 1) * 2
        return ft.sum(z * y), ft.cumsum(z, 0) + 1

    step = ft.compile(f, strict=True)
    for i in range(5):
        x, w = array(24, 32, seed=i), array(32, 16, seed=9)
        for got, wanted in zip(step(x, w), f(x, w), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_a_fused_epilogue_that_falls_back_to_numpy():
    """Its weights are copied first, so that no native call computes it."""

    def f(x, skip, w, b):
        large = ft.conv(x * 2, w, padding=1, input_dilation=2) + ft.reshape(b, (16, 1, 1))
        return ft.concatenate([skip * 2, large], 1) * 0.5

    x, skip = array(16, 32, 8, 8), array(16, 16, 16, 16, seed=1)
    w, b = array(16, 32, 2, 2, seed=2), array(16, seed=3)
    step = ft.compile(f, strict=True)
    held = []
    for i in range(8):
        got = step(x + i, skip, w, b)
        wanted = f(x + i, skip, w, b)
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)
        held.append(ft.eval(x * i))  # the product is at another address in the next call


def test_concatenations_and_paddings_are_native():
    def f(x, y):
        joined = ft.concatenate([x * 2, ft.permute(y, (1, 0)), ft.ones((20, 3))], 1)
        padded = ft.pad(joined, [(1, 2), (0, 3)], value=0.5)
        return padded * 1.5, ft.concatenate([x, x + 1], 0)

    step = ft.compile(f, strict=True)
    for i in range(4):
        x, y = array(20, 8, seed=i), array(6, 20, seed=i + 5)
        for got, wanted in zip(step(x, y), f(x, y), strict=True):
            assert (got.numpy() == wanted.numpy()).all()
    assert [s for _, s in program(step)._segments if s is not None] == []


@pytest.mark.parametrize("cell, gates, kept", [("lstm", 4, 2), ("gru", 3, 1), ("tanh", 1, 1)])
def test_recurrences_run_without_python(cell, gates, kept):
    def f(x, state, weight, bias):
        return ft.recurrent(x, state, weight, bias, cell=cell) * 2

    steps, batch, hidden = 7, 5, 16
    x, state = array(steps, batch, gates * hidden), array(kept, batch, hidden, seed=1)
    weight, bias = array(gates * hidden, hidden, seed=2), array(gates * hidden, seed=3)
    step = ft.compile(f, strict=True)
    for _ in range(4):
        got = step(x, state, weight, bias)
    wanted = f(x, state, weight, bias)
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert len(program(step)._segments) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_run_without_python(reverse):
    def f(x, h, w):
        def cell(h, row):
            total, doubled = ft.scan(lambda s, part: (s + part, part * 2), h[0], row)
            h = ft.tanh(doubled + h @ w + total)
            return h, (h * 2, ft.sum(row))

        h, (ys, sums) = ft.scan(cell, h, x, reverse=reverse)
        return h, ys, sums

    step = ft.compile(f, strict=True)
    x, h, w = array(6, 8, 8, seed=1), array(8, 8, seed=2), array(8, 8, seed=3) * 0.3
    for _ in range(4):
        found = step(x, h, w)
    for got, wanted in zip(found, f(x, h, w), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert len(program(step)._segments) == 1


def test_a_long_scan_and_a_branch_stay_loops_and_branches():
    def f(x, h):
        h, _ = ft.scan(lambda h, row: (ft.tanh(row + h), ()), h, x)
        return ft.cond(ft.sum(h) > 0, lambda h: h * 2, lambda h: -h, h)

    step = ft.compile(f, strict=True)
    x, h = array(5000, 4), array(4, seed=2)
    for _ in range(3):
        got = step(x, h)
    np.testing.assert_allclose(got.numpy(), f(x, h).numpy(), rtol=1e-4, atol=1e-5)


def test_another_number_of_threads():
    state, plain, x = Weights(), Weights(), array(256, 48)
    step = state.compiled(descend)
    before = ft.get_num_threads()
    try:
        for threads in (1, 1, 1, 2, 2, 1, 2):
            ft.set_num_threads(threads)
            loss = step(x)
            np.testing.assert_allclose(loss.numpy(), descend(plain, x).numpy(), rtol=1e-5)
    finally:
        ft.set_num_threads(before)


def test_threads_at_once():
    step = ft.compile(lambda x, w: ft.tanh(x @ w) @ w)
    x, w = [array(64, 64, seed=i) for i in range(4)], array(64, 64, seed=9) * 0.1
    for _ in range(3):
        step(x[0], w)
    wanted = [(ft.tanh(each @ w) @ w).numpy() for each in x]
    wrong = []

    def work(i):
        with ft.use("jit"):
            for _ in range(100):
                if not np.allclose(step(x[i], w).numpy(), wanted[i], rtol=1e-4, atol=1e-4):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def failing(*values):
    raise MemoryError("no room")


def test_an_error_leaves_the_state(monkeypatch):
    """A step that NumPy computes fails before anything is overwritten."""
    state, x = Weights(), array(32, 48)

    def f(held, x):
        order = ft.sort(x, 1)
        return descend(held, order)

    step = state.compiled(f)
    for _ in range(6):
        step(x)
    before = {k: getattr(state, k).numpy().copy() for k in "wm"}
    monkeypatch.setattr(Operation, "__call__", failing)
    with pytest.raises(MemoryError):
        step(x)
    for k, value in before.items():
        assert (getattr(state, k).numpy() == value).all()


def test_an_error_after_in_place_updates_invalidates_the_state():
    state, x = Weights(), array(32, 48)
    step = state.compiled(descend)
    for _ in range(6):
        step(x)
    program(step)._segments.append((failing, None))
    with pytest.raises(MemoryError):
        step(x)
    with pytest.raises(ft.BackendError, match="gone"):
        (state.w * 2).numpy()


def test_profiles_see_the_steps():
    step = ft.compile(lambda x, w: ft.tanh(x @ w) + 1)
    x, w = array(64, 64), array(64, 64, seed=1)
    for _ in range(3):
        step(x, w)
    with fl_jit.profile() as profile:
        step(x, w)
    assert "matmul" in str(profile)


@pytest.mark.parametrize("seed", range(20))
def test_memory_of_live_results_does_not_overlap(seed):
    rng = random.Random(seed)
    intervals = {}
    for i in range(60):
        begin = rng.randrange(50)
        intervals[i] = Interval(begin, begin + rng.randrange(12), 64 * rng.randrange(1, 40))
    offsets, size = assign_offsets(intervals)
    for i, one in intervals.items():
        assert 0 <= offsets[i] <= size - one.nbytes
        for j in range(i):
            other = intervals[j]
            if one.begin <= other.end and other.begin <= one.end:
                begin, end = offsets[j], offsets[j] + other.nbytes
                assert offsets[i] + one.nbytes <= begin or end <= offsets[i]
    live = [sum(x.nbytes for x in intervals.values() if x.begin <= t <= x.end) for t in range(64)]
    assert max(live) <= size <= 1.5 * max(live)


def test_fixed_memory_takes_the_place_of_cached_memory(monkeypatch):
    """The block stays beside the pages that eager steps have used, unless these go back."""
    released = []
    manager = type(fl_memory.current())
    release = manager.release_cached
    monkeypatch.setattr(
        manager, "release_cached", lambda self: released.append(self) or release(self)
    )
    weights = Weights()

    def step(weights, x):
        weights.w = weights.w + 0.1 * x
        return ft.sum(ft.exp(weights.w) @ ft.exp(x).T)

    compiled = weights.compiled(step)
    for _ in range(5):
        compiled(array(48, 24, seed=9)).item()
    assert len(released) == 1
