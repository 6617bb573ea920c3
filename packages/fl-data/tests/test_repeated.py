"""Repeated: the same sample several times, over the ranks."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

import fl_data as data


def test_each_sample_comes_so_many_times(rows):
    ds = data.Repeated(rows(5), 3, length=15, seed=1)
    assert Counter(ds.order) == dict.fromkeys(range(5), 3)
    assert all(len(set(ds.order[start : start + 3])) == 1 for start in range(0, 15, 3))


def test_an_epoch_has_the_usual_length_by_default(rows):
    ds = data.Repeated(rows(9), 3, seed=1)
    assert len(ds) == 9
    assert sorted(Counter(ds.order).values()) == [3, 3, 3]


def test_ranks_share_the_copies_and_miss_nothing(rows):
    ranks = [
        data.Repeated(rows(8), 3, length=24, seed=5, rank=rank, world_size=3) for rank in range(3)
    ]
    assert [list(ds.order) for ds in ranks] == [list(ranks[0].order)] * 3
    assert sorted(ranks[0].order) == list(range(8))
    two = [data.Repeated(rows(8), 3, length=24, seed=5, rank=r, world_size=2) for r in range(2)]
    together = Counter(two[0].order) + Counter(two[1].order)
    assert together == dict.fromkeys(range(8), 3)


def test_ranks_have_equally_many_places(rows):
    sizes = [len(data.Repeated(rows(11), 3, rank=r, world_size=4, seed=0)) for r in range(4)]
    assert sizes == [2] * 4


def test_the_order_depends_on_seed_and_epoch_alone(rows):
    ds = data.Repeated(rows(12), 2, seed=3)
    first = list(ds.order)
    ds.resample()
    second = list(ds.order)
    assert first != second
    again = data.Repeated(rows(12), 2, seed=3)
    again.set_epoch(1)
    assert list(again.order) == second
    assert list(pickle.loads(pickle.dumps(again)).order) == second
    assert list(data.Repeated(rows(12), 2, seed=4).order) != first


def test_ranks_without_a_seed_agree(rows):
    orders = [data.Repeated(rows(6), 2, rank=r, world_size=2).order for r in range(2)]
    assert list(orders[0]) == list(orders[1])


def test_copies_are_augmented_in_different_ways(rows):
    ds = data.Repeated(rows(4), 4, length=16, seed=0)
    drawn = data.RandomTransform(ds, lambda s, g: (g.integers(0, 1 << 30, ()),), seed=1)
    assert len({sample[0].item() for sample in drawn}) == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 0}, "repeats"),
        ({"repeats": 2, "length": 9}, "at most 8"),
        ({"rank": 2, "world_size": 2}, "rank 2 does not exist"),
    ],
)
def test_what_cannot_be(rows, options, message):
    with pytest.raises(data.DataError, match=message):
        data.Repeated(rows(4), **options)
