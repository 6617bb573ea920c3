"""Pooling with ``ceil_mode`` and ``dilation``, counted by hand."""

from __future__ import annotations

import pytest

import fl_tensor as ft

pytestmark = pytest.mark.defect("item 7")

LINE = ft.asarray([[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]])


def flat(y):
    return y.reshape(-1).tolist()


def test_a_last_window_may_reach_over_the_end():
    assert flat(ft.max_pool(LINE, 3, 2)) == [3.0, 5.0]
    assert flat(ft.max_pool(LINE, 3, 2, ceil_mode=True)) == [3.0, 5.0, 6.0]
    assert flat(ft.max_pool(LINE[..., :2], 3, 2, ceil_mode=True)) == [2.0]


def test_no_window_starts_in_the_padding_behind():
    assert flat(ft.max_pool(LINE, 2, 3, 1, ceil_mode=True)) == [1.0, 4.0, 6.0]
    assert flat(ft.max_pool(LINE[..., :5], 2, 3, 1, ceil_mode=True)) == [1.0, 4.0]


def test_a_mean_counts_padding_and_nothing_beyond_it():
    x = LINE[..., :4]
    # Windows (0, 1, 2), (2, 3, 4) and (4, 0, beyond).
    assert flat(ft.avg_pool(x, 3, 2, 1, ceil_mode=True)) == [1.0, 3.0, 2.0]
    assert flat(ft.avg_pool(x, 3, 2, 1, False, ceil_mode=True)) == [1.5, 3.0, 4.0]
    assert flat(ft.avg_pool(x, 3, 3, ceil_mode=True)) == [2.0, 4.0]


def test_elements_of_a_window_are_dilation_apart():
    assert flat(ft.max_pool(-LINE, 2, 1, dilation=3)) == [-1.0, -2.0, -3.0]
    assert flat(ft.max_pool(-LINE, 2, 2, 2, dilation=3)) == [-2.0, -1.0, -3.0, -5.0]
    square = ft.arange(20).reshape(1, 1, 4, 5)
    found = ft.max_pool(square, 2, 1, dilation=(2, 3))
    assert found.tolist() == [[[[13, 14], [18, 19]]]]


def test_padding_of_a_dilated_window_never_wins():
    least = ft.asarray([[[-128, -127, -128]]], ft.int8)
    assert flat(ft.max_pool(least, 2, 1, 1, dilation=2)) == [-127, -128, -127]


def test_shapes_are_known_without_values():
    x = ft.zeros((2, 3, 7, 6), backend="null")
    assert ft.max_pool(x, 3, 2, 1, ceil_mode=True, dilation=2).shape == (2, 3, 3, 3)
    assert ft.avg_pool(x, 3, 2, 1, ceil_mode=True).shape == (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (lambda: ft.max_pool(LINE, 2, dilation=0), "dilation"),
        (lambda: ft.max_pool(LINE, 3, dilation=3), "a window of 7"),
        (lambda: ft.max_pool(LINE, 2, 2, 3, ceil_mode=True), "padding is less"),
        (lambda: ft.avg_pool(LINE, 2, 2, 3, ceil_mode=True), "padding is less"),
        (lambda: ft.avg_pool(LINE, 2, 0, ceil_mode=True), "at least 1"),
        (lambda: ft.avg_pool(LINE[..., :0], 2, ceil_mode=True), "does not fit an axis of 0"),
        (lambda: ft.max_pool(LINE[0], 2, ceil_mode=True), "expected x"),
    ],
)
def test_windows_that_do_not_fit_are_refused(pool, words):
    with pytest.raises(ft.ShapeError, match=words):
        pool()
