"""Merge, Resample and Weighted."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

import fl_data as data
import fl_tensor as ft


def test_merge_puts_fields_side_by_side(rows):
    ds = data.Merge(rows(3), data.TensorDataset(ft.arange(3) + 10))
    assert [field.tolist() for field in ds[-1]] == [[2.0, -2.0], 2, 12]
    assert [field.tolist() for field in ds.__getitems__([2, 0])][1:] == [[2, 0], [12, 10]]
    named = data.Merge(data.TensorDataset(a=ft.arange(2)), data.TensorDataset(b=ft.arange(2)))
    assert {name: value.item() for name, value in named[1].items()} == {"a": 1, "b": 1}


def test_merge_wants_equal_lengths_unless_told_otherwise(rows, labels):
    with pytest.raises(data.DataError, match=r"\[3, 2\] samples.*strict=False"):
        data.Merge(rows(3), rows(2))
    ragged = data.Merge(rows(3), rows(2), strict=False)
    assert len(ragged) == 3
    assert [len(sample) for sample in ragged] == [4, 4, 2]
    assert len(ragged.__getitems__([0, 1])) == 4
    assert len(ragged.__getitems__([2])) == 2
    with pytest.raises(data.DataError, match="all samples need the same fields"):
        ragged.__getitems__([1, 2])


def test_merge_says_what_does_not_fit(rows):
    named = data.TensorDataset(a=ft.arange(3))
    with pytest.raises(data.DataError, match="tuples and another dicts"):
        data.Merge(rows(3), named)[0]
    with pytest.raises(data.DataError, match=r"\['a'\] come from two"):
        data.Merge(named, named)[0]
    with pytest.raises(data.DataError, match="at least one"):
        data.Merge()


def two_of_each_epoch(generator):
    return generator.integers(0, 5, (4,))


def test_resample_draws_anew_in_every_epoch_from_seed_and_epoch_alone(rows, labels):
    ds = data.Resample(rows(5), two_of_each_epoch, seed=3)
    orders = []
    for epoch in range(4):
        ds.set_epoch(epoch)
        assert labels(ds) == list(ds.order)
        orders.append(labels(ds))
    assert len({tuple(order) for order in orders}) == 4
    other = data.Resample(rows(5), two_of_each_epoch, seed=3)
    other.set_epoch(3)
    assert labels(other) == orders[3]
    assert other.__getitems__([3, 0])[1].tolist() == [orders[3][3], orders[3][0]]
    assert labels(pickle.loads(pickle.dumps(other))) == orders[3]


def test_resample_refuses_other_lengths_and_indices_outside(rows):
    with pytest.raises(data.SampleIndexError, match="index 5 is out of range"):
        data.Resample(rows(5), lambda generator: [5])
    with pytest.raises(data.DataError, match="gave 1 indices, the dataset has 2"):
        data.Resample(rows(5), lambda generator: [0], length=2)[0]
    with pytest.raises(data.SampleTypeError, match="use Subset"):
        data.Resample(rows(5), [0, 1])


def test_a_resampled_iteration_resumes(rows, labels):
    ds = data.Resample(rows(5), two_of_each_epoch)
    ds.set_epoch(2)
    whole = labels(ds)
    iterator = iter(ds)
    next(iterator)
    state = iterator.state()
    resumed = iter(data.Resample(rows(5), two_of_each_epoch))
    resumed.load_state(state)
    assert labels(resumed) == whole[1:]


@pytest.mark.parametrize("kind", [list, ft.asarray])
def test_weights_decide_how_often(rows, kind):
    ds = data.Weighted(rows(4), kind([1.0, 0.0, 2.0, 1.0]), length=4000, seed=1)
    counts = Counter(ds.order)
    assert counts[1] == 0
    expected = {0: 1000, 2: 2000, 3: 1000}
    # chi-square with 2 degrees of freedom; 13.8 is the 0.001 point
    assert sum((counts[i] - n) ** 2 / n for i, n in expected.items()) < 13.8
    ds.set_epoch(1)
    assert Counter(ds.order) != counts


def test_without_replacement_nothing_comes_twice_and_heavy_samples_come_first(rows):
    weights = [1.0, 0.0, 8.0, 1.0]
    ds = data.Weighted(rows(4), weights, 3, replacement=False)
    first = Counter()
    for epoch in range(1000):
        ds.set_epoch(epoch)
        assert sorted(ds.order) == [0, 2, 3]
        first[ds.order[0]] += 1
    expected = {0: 100, 2: 800, 3: 100}
    assert sum((first[i] - n) ** 2 / n for i, n in expected.items()) < 13.8


@pytest.mark.parametrize(
    ("weights", "length", "message"),
    [
        ([1, 1], None, "2 weights for 3 samples"),
        ([1, -1, 1], None, "weight 1 is -1"),
        ([1, float("nan"), 1], None, "weight 1 is nan"),
        ([0, 0, 0], None, "no weight is above 0"),
        ([1, 0, 1], 3, "only 2 weights are above 0"),
    ],
)
def test_bad_weights(rows, weights, length, message):
    with pytest.raises(data.DataError, match=message):
        data.Weighted(rows(3), weights, length, replacement=length is None)
