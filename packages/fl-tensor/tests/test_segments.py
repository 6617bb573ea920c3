"""Scatter by maximum and minimum, and reductions of segments."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.testing import needs

RNG = np.random.default_rng(0)
SHAPES = [((5,), (9,), 0), ((3, 4), (2, 3), 1), ((4, 2, 3), (7,), 0), ((2, 5, 2), (3, 2), 1)]


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize(("shape", "places", "axis"), SHAPES)
def test_scatter_by_extremes(mode, dtype, shape, places, axis):
    x = RNG.integers(0, 9, shape).astype(dtype)
    indices = RNG.integers(-shape[axis], shape[axis], places)
    updates = RNG.integers(0, 9, (*shape[:axis], *places, *shape[axis + 1 :])).astype(dtype)
    want = x.copy()
    ufunc = np.maximum if mode == "max" else np.minimum
    ufunc.at(want, (slice(None),) * axis + (indices,), updates)
    found = ft.scatter(ft.asarray(x), indices, ft.asarray(updates), axis, mode)
    assert str(found.dtype) == dtype
    np.testing.assert_array_equal(found, want)


def test_scatter_by_extremes_with_nan_and_infinities():
    x, indices = ft.asarray([0.0, np.nan, 1.0, 5.0]), [0, 0, 1, 2, 2, 3]
    updates = [np.nan, 3.0, 2.0, np.inf, -np.inf, 4.0]
    for mode, third, last in (("max", np.inf, 5.0), ("min", -np.inf, 4.0)):
        found = ft.scatter(x, indices, updates, mode=mode)
        np.testing.assert_array_equal(found, [np.nan, np.nan, third, last])


@needs("complex64")
def test_scatter_refuses_what_has_no_order():
    with pytest.raises(ft.ArgumentError, match="'set', 'add', 'max', 'min'"):
        ft.scatter([1.0], [0], [2.0], mode="mean")
    with pytest.raises(ft.DTypeError, match="complex numbers have no maximum"):
        ft.scatter([1j], [0], [2.0], mode="max")


REDUCED = {
    "segment_sum": (np.sum, 0.0),
    "segment_mean": (np.mean, 0.0),
    "segment_max": (np.max, -np.inf),
    "segment_min": (np.min, np.inf),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("shape", [(40,), (40, 3), (40, 2, 2)])
def test_segments_in_any_order_and_empty_ones(name, shape):
    reduce, nothing = REDUCED[name]
    x, ids = RNG.standard_normal(shape).astype("float32"), RNG.integers(0, 6, 40)
    ids[ids == 4] = 5
    found = getattr(ft, name)(ft.asarray(x), ids, 8)
    assert found.shape == (8, *shape[1:]) and found.dtype is ft.float32
    for i in range(8):
        rows = x[ids == i]
        want = reduce(rows, 0) if len(rows) else np.full(shape[1:], nothing)
        np.testing.assert_allclose(found[i], want, rtol=1e-5, atol=1e-6)


def test_the_number_of_segments_may_be_left_out():
    assert ft.segment_sum([1, 2, 3, 4], [1, 1, 3, 0]).tolist() == [4, 3, 0, 3]
    assert ft.segment_sum(ft.zeros((0, 2)), ft.zeros(0, dtype="int64")).shape == (0, 2)


def test_integer_segments():
    x = ft.asarray([3, 1, 2], dtype="int32")
    assert ft.segment_sum(x, [0, 0, 2]).dtype is ft.int32
    assert ft.segment_max(x, [0, 0, 2]).tolist() == [3, np.iinfo("int32").min, 2]
    assert ft.segment_min(x, [0, 0, 2]).tolist() == [1, np.iinfo("int32").max, 2]
    assert ft.segment_mean(x, [0, 0, 2]).tolist() == [2.0, 0.0, 2.0]


def test_softmax_of_segments_adds_up_to_one_without_overflow():
    x, ids = RNG.standard_normal((30, 2)).astype("float32") * 300, RNG.integers(0, 4, 30)
    found = np.asarray(ft.segment_softmax(ft.asarray(x), ids, 5))
    for i in range(4):
        np.testing.assert_allclose(found[ids == i], ft.softmax(x[ids == i], 0), rtol=1e-5)


@pytest.mark.parametrize("dtype", [ft.float16, ft.bfloat16])
def test_segments_of_half_precision_are_added_in_float32(dtype):
    ids = ft.zeros(70_000, dtype="int64")
    ones = ft.ones(70_000, dtype=dtype)
    assert ft.segment_mean(ones * 3.0, ids).tolist() == [3.0]
    assert ft.segment_mean(ft.full(2, 6e4, dtype=dtype), [0, 0]) == ft.full(1, 6e4, dtype=dtype)
    shares = ft.segment_softmax(ones, ids)
    assert shares.dtype is dtype
    np.testing.assert_allclose(shares[:3].tolist(), 1 / 70_000, rtol=4e-3)


def test_refused_segments():
    with pytest.raises(ft.ArgumentError, match="num_segments -1: may not be negative"):
        ft.segment_sum(ft.zeros((0, 2)), ft.zeros(0, dtype="int64"), -1)
    with pytest.raises(ft.IndexingError, match="-1 is negative; leave its slice out"):
        ft.segment_sum([1.0, 2.0], [0, -1])
    with pytest.raises(ft.IndexingError, match="index 3 is out of range"):
        ft.segment_max([1.0, 2.0], [0, 3], 3)
    with pytest.raises(ft.ShapeError, match=r"x \(2, 3\) and ids \(3,\)"):
        ft.segment_softmax(ft.ones((2, 3)), [0, 0, 1])
    with pytest.raises(ft.DTypeError, match="expected integers"):
        ft.segment_mean([1.0], [0.5])
