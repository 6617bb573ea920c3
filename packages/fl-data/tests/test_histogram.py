"""How lengths are distributed."""

from __future__ import annotations

import math

import pytest

import fl_data as data
import fl_tensor as ft


@pytest.mark.parametrize("kind", [list, ft.asarray])
def test_numbers_are_counted_in_buckets_of_equal_width(kind):
    found = data.Histogram(kind([0.0, 1.0, 2.5, 5.0, 7.5, 10.0]), buckets=4)
    assert [(b.start, b.end, b.count) for b in found.buckets] == [
        (0.0, 2.5, 2),
        (2.5, 5.0, 1),
        (5.0, 7.5, 1),
        (7.5, 10.0, 2),
    ]
    assert (found.count, found.sum, found.min, found.max) == (6, 26, 0, 10)
    assert found.mean == pytest.approx(26 / 6)


def test_numbers_beyond_count_in_the_outermost_buckets():
    found = data.Histogram([-5, 0, 4, 99], buckets=2, begin=0, end=4)
    assert [bucket.count for bucket in found.buckets] == [2, 2]
    assert (found.min, found.max) == (-5, 99)


def test_few_numbers():
    assert [bucket.count for bucket in data.Histogram([3, 3], buckets=2).buckets] == [2, 0]
    none = data.Histogram([], buckets=2)
    assert (none.count, math.isnan(none.mean), str(none).count("\n")) == (0, True, 2)


def test_it_is_drawn():
    assert str(data.Histogram([1, 2, 2, 2, 3], buckets=2)).splitlines() == [
        "5 numbers, 1 .. 3, mean 2",
        "1 .. 2 1 ##########",
        "2 .. 3 4 " + "#" * 40,
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], 0), "buckets must be at least 1"),
        (([1, math.inf],), "not finite"),
        (([1, 2], 3, 5), "begin 5 must be less than end 2"),
        (([1, 2], 3, 2, 2), "begin 2 must be less than end 2"),
    ],
)
def test_what_cannot_be_is_an_error(arguments, message):
    with pytest.raises(data.DataError, match=message):
        data.Histogram(*arguments)
