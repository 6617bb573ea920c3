"""``take_along_axis`` as the array API standard has it: all axes but one broadcast."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft

SHAPES = [
    ((2, 3), (1, 2), 1),
    ((1, 3), (2, 2), 1),
    ((3, 1), (2, 4), 0),
    ((2, 1, 3), (1, 4, 5), -1),
    ((2, 1, 3), (2, 5, 1), 1),
    ((2, 3), (1, 0), 1),
    ((0, 3), (1, 2), 1),
]


@pytest.mark.defect("V7")
@pytest.mark.parametrize(("shape", "places", "axis"), SHAPES)
def test_other_axes_broadcast(shape, places, axis):
    rng = np.random.default_rng(0)
    x, indices = rng.normal(size=shape), rng.integers(0, shape[axis], places)
    for function in (ft.take_along_axis, ft.array_api.take_along_axis):
        found = function(ft.asarray(x), ft.asarray(indices), axis=axis)
        assert np.array_equal(found.numpy(), np.take_along_axis(x, indices, axis))


@pytest.mark.defect("V7")
def test_the_example_of_the_report():
    xp = ft.array_api
    found = xp.take_along_axis(xp.ones((2, 3)), xp.asarray([[0, 1]]), axis=1)
    assert found.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.defect("V7")
def test_what_does_not_broadcast_is_named():
    with pytest.raises(ft.ShapeError, match=r"\(2, 3\) and indices \(4, 1\): all axes but 1 must"):
        ft.take_along_axis(ft.ones((2, 3)), ft.zeros((4, 1), dtype="int64"), 1)


def test_both_have_as_many_axes():
    with pytest.raises(ft.ShapeError, match=r"x \(2, 3\) and indices \(1,\)"):
        ft.take_along_axis(ft.ones((2, 3)), [0], 1)


def test_negative_indices_count_from_the_end_and_others_are_refused():
    x = ft.arange(6).reshape(2, 3)
    assert ft.take_along_axis(x, [[-1]], 1).tolist() == [[2], [5]]
    with pytest.raises(ft.IndexingError, match="index 3 is out of range for axis 1 of 3"):
        ft.take_along_axis(x, [[3]], 1)
