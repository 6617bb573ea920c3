"""Assignment to a part of what is not computed yet is deferred, too."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.steps import indexing

SHAPE = (40, 300)


@pytest.fixture
def jit():
    backend = JitBackend()
    backend.plans.background = False
    with ft.use(backend):
        yield backend


def deferred(backend):
    return [call.op for call in backend._pending.calls]


def start():
    return ft.full(SHAPE, 1.0) * 2.0


def test_it_waits_with_what_it_is_assigned_to(jit):
    x = start()
    x[3] = 7.0
    x[:, 5:9] = x[:, 1:5] + 1.0
    x[::2, ::-3] = 0.5
    assert deferred(jit).count("slice_update") == 3
    wanted = np.full(SHAPE, 2.0, np.float32)
    wanted[3] = 7.0
    wanted[:, 5:9] = wanted[:, 1:5] + 1.0
    wanted[::2, ::-3] = 0.5
    np.testing.assert_array_equal(np.asarray(x), wanted)


def test_a_large_array_that_is_there_is_written_to_at_once(jit):
    x = start()
    ft.eval(x)
    before = np.asarray(x).__array_interface__["data"][0]
    x[0] = ft.ones(300) * 3.0
    assert deferred(jit) == []
    assert np.asarray(x).__array_interface__["data"][0] == before


def test_others_keep_what_they_saw(jit):
    for _ in range(3):  # call by call, then by a plan
        x = start()
        copy, view, sum_before = x.copy(), x[2:4], ft.sum(x)
        x[2] = 9.0
        after = x.copy()
        x[2] = -1.0
        np.testing.assert_array_equal(np.asarray(copy), np.full(SHAPE, 2.0))
        np.testing.assert_array_equal(np.asarray(view), np.full((2, 300), 2.0))
        assert sum_before.item() == 2.0 * 40 * 300
        assert after[2, 0].item() == 9.0 and x[2, 0].item() == -1.0 and x[1, 0].item() == 2.0


def test_a_view_of_a_result_is_not_written_through(jit):
    for _ in range(3):
        x = start()
        y = ft.reshape(x, (300, 40))
        y[0] = 5.0
        z = x + 1.0
        ft.eval(y, z)
        assert y[0, 0].item() == 5.0 and z[0, 0].item() == 3.0


@pytest.mark.parametrize("place", [0, slice(1), [0], [-1, -1]])
def test_one_of_equal_rows_is_written_alone(jit, place):
    jit.plans.compile_after = 1
    row = ft.full(12_000, 1.0) * 2.0
    x = ft.broadcast_to(row, (3, 12_000))
    del row
    ft.eval(x)
    assert jit.plans.entries()
    x[place] = 7.0
    wanted = np.full((3, 12_000), 2.0, np.float32)
    wanted[place] = 7.0
    np.testing.assert_array_equal(np.asarray(x), wanted)


def test_places_are_data(jit):
    """A loop over places is one computation, planned once."""
    for place in (0, 5, 11, 39):
        x = start()
        x[place] = 3.0
        wanted = np.full(SHAPE, 2.0, np.float32)
        wanted[place] = 3.0
        np.testing.assert_array_equal(np.asarray(x), wanted)
    assert len(jit.plans.entries()) == 1


def test_a_row_after_the_other_is_written_into_one_array(jit, monkeypatch):
    """Neither plan nor interpreter copies the array for each."""
    copies = []
    true = JitBackend.slice_updated

    def watched(self, x, starts, steps, updates, in_place):
        copies.append(not in_place)
        return true(self, x, starts, steps, updates, in_place)

    monkeypatch.setattr("fl_tensor.backends.numpy.backend.NumpyBackend.slice_updated", watched)
    for turn in range(3):
        copies.clear()
        x = start()
        for i in range(40):
            x[i] = float(i)
        np.testing.assert_array_equal(np.asarray(x), np.full(SHAPE, np.arange(40.0)[:, None]))
        assert len(copies) == 40 and sum(copies) <= 1, turn


def test_errors_are_raised_by_the_line_that_is_wrong(jit):
    x = start()
    with pytest.raises(IndexError):
        x[40] = 1.0
    with pytest.raises(ft.ShapeError):
        x[1:3] = ft.ones((3, 300))
    assert x[0, 0].item() == 2.0


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float64", "complex64"])
def test_dtypes(jit, dtype):
    for _ in range(3):
        x = ft.reshape(start().astype(dtype), (300, 40))
        x[1:5, ::2] = ft.zeros((4, 20), dtype=dtype)
        found = np.asarray(x.astype("complex128"))
        wanted = np.full((300, 40), 1 if dtype == "bool" else 2, complex)
        wanted[1:5, ::2] = 0
        np.testing.assert_array_equal(found, wanted)


def test_plans_have_a_step_for_it(jit):
    for _ in range(3):
        x = start()
        x[1] = 0.0
        ft.eval(x)
    (plan,) = jit.plans.entries()
    assert any(isinstance(step, indexing.SliceUpdate) for step in plan.steps)
