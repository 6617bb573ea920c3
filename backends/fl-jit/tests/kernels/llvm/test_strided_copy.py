"""Copies of planes: rows and columns of any number, in any order, and nothing else touched."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from fl_jit.kernels.llvm import strided_copy
from fl_tensor.dtypes import bfloat16, dtype, float16, float32, float64

MOVE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)
SIZES = [(1, 1), (3, 5), (16, 16), (17, 31), (40, 70), (5, 200)]


def move(target, source):
    """Copy all of ``source`` into ``target``, by the function for their strides."""
    strides = [s // a.itemsize for a in (target, source) for s in a.strides]
    kind = strided_copy.kind(*strides)
    found = strided_copy.address(kind, dtype(source.dtype.name), dtype(target.dtype.name))
    MOVE(found)(
        *(target.ctypes.data, *target.strides, source.ctypes.data, *source.strides),
        *target.shape,
    )
    return kind


def surrounded(rows, columns, order, kind="float32"):
    """A plane of zeros in a larger one of NaN: both."""
    whole = np.full((rows + 2, columns + 3), np.nan, kind)
    whole = whole.copy(order=order)
    inner = whole[1 : 1 + rows, 2 : 2 + columns]
    inner[...] = 0
    return whole, inner


@pytest.mark.parametrize("rows, columns", SIZES)
@pytest.mark.parametrize(
    "target, source, kind",
    [("C", "C", "straight"), ("C", "F", "transposed"), ("F", "C", "single"), ("F", "F", "single")],
)
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_every_order(rows, columns, target, source, kind, name):
    rng = np.random.default_rng(rows)
    values = rng.standard_normal((rows, columns)).astype(name)
    whole, to = surrounded(rows, columns, target, name)
    _, given = surrounded(rows, columns, source, name)
    given[...] = values
    assert move(to, given) == kind
    np.testing.assert_array_equal(to, values)
    assert np.isnan(whole).sum() == whole.size - to.size


def test_rows_may_be_apart_and_columns_too():
    values = np.arange(60.0, dtype=np.float32).reshape(6, 10)
    to = np.zeros((3, 5), np.float32)
    move(to, values[::2, ::2])
    np.testing.assert_array_equal(to, values[::2, ::2])


@pytest.mark.parametrize("columns", [5, 40])
def test_what_comes_next_is_prefetched_but_not_copied(columns):
    values = np.arange(9.0 * columns, dtype=np.float32).reshape(9, columns)
    (found,) = strided_copy.addresses(
        [strided_copy.Move("straight", float32, float32, prefetch=160)]
    )
    whole, to = surrounded(9, columns, "C")
    MOVE(found)(
        *(to.ctypes.data, *to.strides, values.ctypes.data, *values.strides),
        *to.shape,
    )
    np.testing.assert_array_equal(to, values)
    assert np.isnan(whole).sum() == whole.size - to.size


@pytest.mark.parametrize("order", ["C", "F"])
def test_half_precision_is_converted(order):
    rng = np.random.default_rng(3)
    values = rng.standard_normal((21, 35)).astype(np.float32)
    half = values.astype(np.float16).copy(order=order)
    to = np.zeros(values.shape, np.float32)
    move(to, half)
    np.testing.assert_array_equal(to, half.astype(np.float32))
    back = np.zeros(values.shape, np.float16)
    move(back, values)
    np.testing.assert_array_equal(back, values.astype(np.float16))


@pytest.mark.parametrize("kind", ["straight", "transposed", "single"])
def test_there_is_code_for_every_pair_of_dtypes(kind):
    for half in (float16, bfloat16):
        assert strided_copy.address(kind, half, float32)
        assert strided_copy.address(kind, float32, half)
    assert strided_copy.address(kind, float64, float64)


def test_rows_are_paired_and_unpaired():
    """Of two rows each, in int32: the first one in the lower half."""
    rng = np.random.default_rng(5)
    single = rng.integers(0, 1 << 16, (10, 7), np.uint16)
    pairs, back = np.zeros((5, 7), np.uint32), np.zeros_like(single)
    row, column = single.strides
    MOVE(strided_copy.address("pairs", bfloat16, float32))(
        *(pairs.ctypes.data, *pairs.strides, single.ctypes.data, 2 * row, column, 5, 7)
    )
    np.testing.assert_array_equal(pairs, single[::2] | (single[1::2].astype(np.uint32) << 16))
    MOVE(strided_copy.address("unpair", float32, bfloat16))(
        *(back.ctypes.data, 2 * row, column, pairs.ctypes.data, *pairs.strides, 5, 7)
    )
    np.testing.assert_array_equal(back, single)
