"""`fl_tensor.extend.numpy`: what a backend over NumPy builds on."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_tensor.extend.numpy import (
    FROM_NUMPY,
    TO_NUMPY,
    Number,
    NumpyAdapter,
    NumpyBackend,
    adapt,
    errstate,
    is_sole_owner,
    memory,
    slice_index,
)


def test_dtypes_go_both_ways():
    assert FROM_NUMPY[np.dtype(np.float32)] is ft.float32
    assert all(FROM_NUMPY[TO_NUMPY[dtype]] is dtype for dtype in TO_NUMPY)


def test_an_adapter_holds_an_array_and_its_dtype():
    x = NumpyAdapter(np.ones((2, 3), np.int32))
    assert (x.shape, x.dtype, x.device) == ((2, 3), ft.int32, ft.CPU)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_single_float_may_be_a_number(dtype):
    x = adapt(dtype(2.5))
    assert type(x) is Number and x.shape == () and x.dtype is FROM_NUMPY[np.dtype(dtype)]
    assert isinstance(x.array, np.ndarray) and x.array.item() == 2.5
    assert type(adapt(np.int64(1))) is NumpyAdapter
    assert type(adapt(np.ones(2))) is NumpyAdapter


def test_large_results_are_blocks_of_the_manager_in_use():
    manager = fl_memory.get("caching")
    with fl_memory.use("caching"):
        before = manager.stats().live_bytes
        assert not memory.is_small(1 << 20)
        x = memory.empty((1 << 18,), np.dtype(np.float32))
        assert manager.stats().live_bytes - before >= x.nbytes
        held = manager.stats().live_bytes
        y = memory.cast(x, np.dtype(np.float64))
        assert manager.stats().live_bytes - held >= y.nbytes and y.dtype == np.float64
        own = memory.owned(np.ones(1 << 18, np.float32))
        assert not own.flags.owndata and own[0] == 1
        del x, y, own
        assert manager.stats().live_bytes == before


def test_small_results_need_no_block():
    assert memory.is_small(8)
    assert memory.empty((2,), np.dtype(np.float32)).flags.owndata


def test_calls_without_the_warnings_of_floating_point():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero = np.zeros(2, np.float32)
        assert np.isnan(errstate.call(np.divide, zero, zero)).all()
        assert np.isnan(errstate.concurrent(np.divide, zero, zero)).all()
        assert np.isinf(errstate.writing(zero.nbytes)(np.divide, zero + 1, zero)).all()
        assert np.isinf(errstate.writing(1 << 30)(np.divide, zero + 1, zero)).all()
        assert np.isinf(errstate.run(np.log, zero)).all()
        assert np.isinf(errstate.quiet(lambda: np.log(zero))()).all()


@pytest.mark.parametrize(
    ("starts", "sizes", "steps"),
    [((1, 0), (2, 3), (1, 1)), ((0, 4), (2, 3), (2, -2)), ((2, 3), (3, 2), (-1, 1))],
)
def test_the_index_of_a_slice(starts, sizes, steps):
    x = np.arange(20).reshape(4, 5)
    got = x[slice_index(starts, sizes, steps)]
    rows, columns = ([b + i * s for i in range(n)] for b, n, s in zip(starts, sizes, steps))
    assert got.tolist() == x[np.ix_(rows, columns)].tolist()


class Overwriting(NumpyBackend):
    """Scatters in place where it may."""

    def __init__(self):
        self.in_place = []

    def scatter(self, x, indices, updates, axis=0, mode="set", donate=False):
        in_place = donate and is_sole_owner(x)
        self.in_place.append(in_place)
        return self.scattered(x, indices, updates, axis, mode, in_place)

    def slice_update(self, x, starts, steps, updates, donate=False):
        in_place = donate and is_sole_owner(x)
        self.in_place.append(in_place)
        return self.slice_updated(x, starts, steps, updates, in_place)


def test_a_donated_value_is_overwritten_only_if_nobody_else_sees_it():
    backend = Overwriting()
    indices = NumpyAdapter(np.array([1], np.int64))
    row = NumpyAdapter(np.full((1, 4), 7, np.float32))

    def table():
        return NumpyAdapter(np.zeros((3, 4), np.float32))

    mine = table()
    found = backend.scatter(mine, indices, row, donate=True)
    assert found.array is mine.array and found.array[1].tolist() == [7] * 4
    shared = table()
    view = shared.array[1:]
    found = backend.scatter(shared, indices, row, donate=True)
    assert found.array is not shared.array and not view.any()
    kept = table()
    found = backend.slice_update(kept, (1, 0), (1, 1), row)
    assert not kept.array.any() and found.array[1].tolist() == [7] * 4
    assert backend.in_place == [True, False, False]
