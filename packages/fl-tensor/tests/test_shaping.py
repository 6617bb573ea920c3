"""Repeating, moving and surrounding elements as users do, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft

X = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("repeats", [0, 2, [3]])
def test_repeat_as_numpy(repeats, axis):
    assert ft.repeat(X, repeats, axis).tolist() == np.repeat(X, repeats, axis).tolist()


def test_repeat_reads_counts_from_tensors():
    counts = ft.asarray([2, 0, 1])
    assert ft.repeat(X, counts, 0).tolist() == np.repeat(X, [2, 0, 1], 0).tolist()
    assert ft.repeat(X, ft.asarray(2), 1).tolist() == np.repeat(X, 2, 1).tolist()
    assert ft.repeat(5, 3).tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("repeats", "words"),
    [
        (-1, "none negative"),
        ([1, 2], r"2 repeats \[1, 2\] for axis 0 of 3"),
        (1.5, "expected ints"),
        (ft.asarray([1.0, 2.0, 3.0]), "expected integers"),
        (ft.asarray([[1, 2, 3]]), "one axis at most"),
    ],
)
def test_repeat_says_what_is_wrong(repeats, words):
    with pytest.raises(ft.FlError, match=words):
        ft.repeat(X, repeats, 0)


@pytest.mark.parametrize(
    ("shift", "axis"),
    [
        (5, None),
        ((2, -1), None),
        (1, 0),
        ((1, 2), (0, 1)),
        (1, (0, 1)),
        ((1, 2), 1),
        ((1, 1), (0, 0)),
        (3, ()),
    ],
)
def test_roll_as_numpy(shift, axis):
    assert ft.roll(X, shift, axis).tolist() == np.roll(X, shift, axis).tolist()


def test_roll_gives_a_value_of_its_own():
    x = ft.asarray([1, 2])
    y = ft.roll(x, 0, 0)
    y[0] = 9
    assert x.tolist() == [1, 2]
    with pytest.raises(ft.ArgumentError, match="2 shifts"):
        ft.roll(X, (1, 2), (0, 1, 0))


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("widths", [2, (1, 3), ((0, 0), (9, 14)), ((1, 0), (0, 2))])
def test_pad_continues_as_numpy(mode, widths):
    assert ft.pad(X, widths, mode=mode).tolist() == np.pad(X, widths, mode).tolist()
    assert ft.pad([7], widths=3, mode=mode).tolist() == [7] * 7


def test_pad_says_what_is_wrong():
    with pytest.raises(ft.ArgumentError, match="mode 'mirror': expected 'constant' or one of"):
        ft.pad(X, 1, mode="mirror")
    with pytest.raises(ft.ArgumentError, match="mode 'mirror'"):
        ft.pad(X, 0, mode="mirror")
    with pytest.raises(ft.ShapeError, match="axis 1 is empty"):
        ft.pad(ft.zeros((2, 0)), 1, mode="edge")
    assert ft.pad(ft.zeros((2, 0)), ((1, 1), (0, 0)), mode="edge").shape == (4, 0)


@pytest.mark.parametrize(("n", "axis"), [(0, 0), (1, 0), (2, -1), (4, 1)])
def test_diff_as_numpy(n, axis):
    assert ft.diff(X, n, axis).tolist() == np.diff(X, n, axis).tolist()


def test_diff_with_ends():
    assert ft.diff([1, 4, 9], prepend=0, append=[16, 25]).tolist() == [1, 3, 5, 7, 9]
    assert ft.diff([True, True, False]).tolist() == [False, True]
    with pytest.raises(ft.ArgumentError, match="negative"):
        ft.diff([1, 2], -1)


def test_unstack_undoes_stack():
    rows = ft.unstack(X)
    assert isinstance(rows, tuple)
    assert ft.stack(rows).tolist() == X.tolist()
    assert [c.tolist() for c in ft.unstack(X, axis=-1)] == X.T.tolist()


@pytest.mark.defect("item 7")
@pytest.mark.parametrize("mode", ["constant", "edge", "wrap", "reflect", "symmetric"])
def test_a_negative_width_takes_elements_away_first(mode):
    found = ft.pad(X, ((-1, 2), (1, -2)), mode)
    assert found.tolist() == np.pad(X[1:, :-2], ((0, 2), (1, 0)), mode).tolist()
    assert ft.pad(X, -1).tolist() == X[1:-1, 1:-1].tolist()
    assert ft.pad(X, ((-1, -2), (0, 0))).shape == (0, 4)


@pytest.mark.defect("item 7")
def test_no_more_elements_are_taken_away_than_there_are():
    message = r"x \(3, 4\): widths \(-2, -2\) take more than the 3 elements of axis 0"
    with pytest.raises(ft.ShapeError, match=message):
        ft.pad(X, ((-2, -2), (0, 0)))


@pytest.mark.defect("V11")
def test_no_differences_at_all_give_x():
    for ends in ({"prepend": 5}, {"append": X[:, :1]}, {"prepend": X, "append": X}):
        assert ft.diff(X, 0, **ends).tolist() == X.tolist()
        assert ft.array_api.diff(ft.asarray(X), n=0).tolist() == X.tolist()
    with pytest.raises(ft.ArgumentError, match="n -1: may not be negative"):
        ft.diff(X, -1)
    y = ft.asarray([1, 2])
    z = ft.diff(y, 0)
    z[0] = 9
    assert y.tolist() == [1, 2]
