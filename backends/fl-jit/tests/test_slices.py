"""Slices of arrays that are there are views: where they begin is data, and no other computation."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend

ROWS, COLUMNS, BATCH = 4000, 128, 100


@pytest.fixture
def jit():
    backend = JitBackend()
    backend.plans.background = False
    with ft.use(backend):
        yield backend


def computed(shape, dtype="float32"):
    x = (ft.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)
    ft.eval(x)
    return x


@pytest.mark.defect("B5")
@pytest.mark.parametrize("exactly", [False, True], ids=["by default", "reproducible"])
def test_batches_in_order_have_one_plan(jit, exactly):
    x = computed((ROWS, COLUMNS))
    w = computed((COLUMNS, 8 * COLUMNS))
    table = np.asarray(x)
    with ft.reproducible(exactly):
        for first in range(0, ROWS, BATCH):
            found = np.asarray(ft.maximum(x[first : first + BATCH] @ w, 0.0))
            wanted = table[first : first + BATCH] @ np.asarray(w)
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len(ft.jit.plans(jit)) == 1


@pytest.mark.defect("B5")
def test_a_slice_along_any_axis_has_one_plan(jit):
    x = computed((200, 40, 60))
    for start in range(20):
        y = x[start : start + 100, ::2, start : start + 40] * 2.0 + 1.0
        wanted = np.asarray(x)[start : start + 100, ::2, start : start + 40] * 2.0 + 1.0
        np.testing.assert_array_equal(np.asarray(y), wanted)
    assert len(ft.jit.plans(jit)) == 1


@pytest.mark.defect("B5")
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_arrays_that_begin_anywhere_are_read_by_one_plan(jit, dtype):
    """No vector of a kernel takes them for aligned."""
    jit.plans.compile_after = 1
    x = computed((ROWS * 10,), dtype)
    w = computed((100, 100), dtype)
    for start in range(1, 40):
        y = x[start : start + 10_000]
        found = y + y, ft.sum(y.astype("int64")), ft.reshape(y, (100, 100)) * w
        part = np.asarray(x)[start : start + 10_000]
        wanted = part + part, part.astype("int64").sum(), part.reshape(100, 100) * np.asarray(w)
        for result, right in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(result), right)
    assert len(ft.jit.plans(jit)) <= 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_slices_do_not_depend_on_where_they_begin(jit, dtype):
    """Under ``reproducible`` to the bit."""
    rng = np.random.default_rng(1)
    rows, w = rng.standard_normal((BATCH, 300)), ft.asarray(rng.standard_normal((300, 200)), dtype)
    results = []
    with ft.reproducible():
        for start in range(5):
            table = ft.asarray(np.zeros(BATCH * 300 + 5), dtype) * 1.0
            table[start : start + BATCH * 300] = ft.asarray(rows.reshape(-1), dtype)
            ft.eval(table)
            x = table[start : start + BATCH * 300].reshape((BATCH, 300))
            results.append(np.asarray(ft.softmax(x @ w, -1)))
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])


def test_a_slice_of_what_is_not_computed_yet_waits(jit):
    x = ft.full((ROWS, COLUMNS), 1.0) * 2.0
    y = x[3:5] + 1.0
    assert [call.op for call in jit._pending.calls] == ["full", "multiply", "slice", "add"]
    np.testing.assert_array_equal(np.asarray(y), np.full((2, COLUMNS), 3.0))


def test_assignment_reaches_no_slice(jit):
    x = computed((ROWS, COLUMNS))
    before = np.array(np.asarray(x[7:9]))
    y = x[7:9]
    z = y * 1.0
    x[7] = 5.0
    np.testing.assert_array_equal(np.asarray(y), before)
    np.testing.assert_array_equal(np.asarray(z), before)
    np.testing.assert_array_equal(np.asarray(x[7]), np.full(COLUMNS, 5.0))
