"""A deferred computation that fails, fails alone."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit import JitBackend
from fl_memory import OutOfMemoryError
from fl_memory.host import HostMemory

N = 10_000
FULL = np.full(N, 3.0, np.float32)
#: More memory than any machine has: 16 TiB.
TOO_LARGE = (1 << 22, 1 << 20)

defect = pytest.mark.defect("N4")


@pytest.fixture(params=["call by call", "planned"])
def jit(request):
    backend = JitBackend()
    backend.plans.compile_after = 1 if request.param == "planned" else 1 << 30
    with ft.use(backend):
        yield backend


def too_large():
    return ft.sqrt(ft.full(TOO_LARGE, 2.0))


@defect
def test_what_does_not_depend_on_it_goes_on(jit):
    before = ft.full(N, 1.0) * 3.0
    failing = too_large()
    between = ft.full(N, 2.0) + 1.0
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match="17592186044416 bytes"):
            print(failing)
        after = ft.exp(ft.full(N, 0.0)) + 2.0
        np.testing.assert_array_equal(np.asarray(after), FULL)
    np.testing.assert_array_equal(np.asarray(before), FULL)
    np.testing.assert_array_equal(np.asarray(between), FULL)


@defect
def test_others_may_be_read_first(jit):
    x = ft.full(N, 1.0) + 1.0
    failing = too_large()[0, :N] + x
    y = x + 1.0
    np.testing.assert_array_equal(np.asarray(y), FULL)
    with pytest.raises(OutOfMemoryError):
        failing.tolist()
    np.testing.assert_array_equal(np.asarray(x + 1.0), FULL)


def test_what_depends_on_it_raises_its_error(jit):
    failing = too_large()
    dependents = [failing + 1.0, ft.permute(failing, (1, 0)), failing[:1, :N] + 1.0]
    for x in (*dependents, failing, *dependents):
        with pytest.raises(OutOfMemoryError, match="17592186044416 bytes"):
            np.asarray(x)
    with pytest.raises(OutOfMemoryError):
        ft.eval(failing + 1.0)


@defect
def test_eval_fails_for_its_own_values_alone(jit):
    failing, x = too_large(), ft.full(N, 1.0) + 2.0
    ft.eval(x)
    np.testing.assert_array_equal(np.asarray(x), FULL)
    with pytest.raises(OutOfMemoryError):
        ft.eval(x, failing)
    ft.eval(x, ft.full(N, 1.0) + 2.0)


@defect
def test_synchronize_raises_what_nobody_has_read_once(jit):
    failing = too_large()
    with pytest.raises(OutOfMemoryError):
        ft.synchronize(backend=jit)
    ft.synchronize(backend=jit)
    with pytest.raises(OutOfMemoryError):
        failing.tolist()


@defect
def test_other_threads_go_on(jit):
    failing, x = too_large(), ft.full(N, 1.0) + 1.0
    found = []

    def work():
        with ft.use(jit):
            try:
                ft.eval(failing + 1.0)
            except OutOfMemoryError as error:
                found.append(type(error))
            found.append(np.asarray(x + 1.0)[0])
            found.append((ft.full(N, 1.0) + 2.0)[0].item())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [OutOfMemoryError, 3.0, 3.0]
    np.testing.assert_array_equal(np.asarray(x + 1.0), FULL)


@defect
def test_nothing_is_left_of_it(jit):
    with fl_memory.use(type(fl_memory.get("caching"))()) as manager:
        x = ft.asarray(FULL) * 1.0
        ft.eval(x)
        before = manager.stats().live_bytes
        gc.disable()
        try:
            other = ft.asarray(FULL) * 2.0
            ft.eval(other)
            y = other * x
            failing = too_large()[0, :N] + x
            with pytest.raises(OutOfMemoryError):
                failing.tolist()
            del other
            assert y[0].item() == 18.0
            del y
            assert manager.stats().live_bytes == before, "it holds what it does not need"
            del failing
            assert np.array_equal(np.asarray(x), FULL)
            del x
            assert manager.stats().live_bytes == 0
        finally:
            gc.enable()


def test_it_can_be_tried_again_when_there_is_memory(jit):
    with fl_memory.use(type(fl_memory.get("system"))(HostMemory(limit=45 * N))):
        held = ft.asarray(np.zeros(8 * N, np.float32))
        x = ft.concatenate([ft.full(N, 3.0) + 0.0] * 4) * 1.0
        for _ in range(2):
            with pytest.raises(OutOfMemoryError):
                x.tolist()
        del held
        np.testing.assert_array_equal(np.asarray(x)[:N], FULL)
