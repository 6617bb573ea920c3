"""Iteration spaces with as few axes as can be."""

from __future__ import annotations

import numpy as np

from fl_tensor.backends.jit.codegen.axes import coalesce


def strides(array):
    return tuple(s // array.itemsize for s in array.strides)


def test_contiguous_operands_have_one_axis():
    x = np.empty((4, 5, 6))
    space = coalesce(x.shape, [strides(x), (0, 0, 0)], row_axes=3)
    assert space == ((120,), ((1,), (0,)), 1)
    assert [space.letters(i) for i in (0, 1)] == ["c", "."]


def test_rows_stay_rows():
    x = np.empty((4, 5, 6, 7))
    assert coalesce(x.shape, [strides(x)], row_axes=2) == ((20, 42), ((42, 1),), 1)
    assert coalesce(x.shape, [strides(x)], row_axes=1) == ((120, 7), ((7, 1),), 1)


def test_a_bias_of_channels_keeps_three_axes():
    x, bias = np.empty((2, 3, 4, 5)), (0, 1, 0, 0)
    space = coalesce(x.shape, [strides(x), bias], row_axes=2)
    assert space == ((2, 3, 20), ((60, 20, 1), (0, 1, 0)), 1)
    assert space.letters(0) == "ssc" and space.letters(1) == ".s."


def test_axes_of_size_1_go_but_for_one():
    assert coalesce((1, 5, 1), [(9, 1, 7)], row_axes=3) == ((5,), ((1,),), 1)
    assert coalesce((1, 1), [(3, 1)]) == ((1,), ((0,),), 1)
    assert coalesce((5, 1), [(1, 1)]) == ((5, 1), ((1, 0),), 1)
    assert coalesce((), [()], row_axes=0) == ((1,), ((0,),), 1)


def test_gaps_and_other_orders_keep_axes_apart():
    x = np.empty((4, 12))[:, ::2]
    assert coalesce(x.shape, [strides(x)], row_axes=2).sizes == (24,)
    x = np.empty((4, 12))[:, :6]
    assert coalesce(x.shape, [strides(x)], row_axes=2).sizes == (4, 6)
    x = np.empty((4, 6)).T
    space = coalesce(x.shape, [strides(x)], row_axes=2)
    assert space.sizes == (6, 4) and space.letters(0) == "ss"


def test_an_axis_whose_index_is_asked_for_stays_alone():
    x = np.empty((4, 5, 6))
    assert coalesce(x.shape, [strides(x)], 3, apart={1}).sizes == (4, 5, 6)
    assert coalesce(x.shape, [strides(x)], 3, apart={0}).sizes == (4, 30)
    assert coalesce((4, 1, 6), [(6, 6, 1)], 3, apart={1}).sizes == (4, 1, 6)
