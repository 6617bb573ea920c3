"""Subset, Span, Partition, Concat and Transform."""

from __future__ import annotations

import pytest

import fl_data as data
import fl_tensor as ft


def test_subset_takes_indices_in_order_with_repeats(rows, labels):
    assert labels(data.Subset(rows(5), [3, -1, 3])) == [3, 4, 3]
    assert labels(data.Subset(rows(5), ft.asarray([1, 0]))) == [1, 0]


def test_subset_refuses_indices_outside(rows):
    with pytest.raises(data.SampleIndexError, match="index 5 is out of range for 5 samples"):
        data.Subset(rows(5), [0, 5])


def test_span_is_a_run_of_samples(rows, labels):
    assert labels(data.Span(rows(5), 1, 3)) == [1, 2, 3]
    assert labels(data.Span(rows(5), 3)) == [3, 4]
    assert labels(data.Batch(data.Span(rows(5), 1, 3), 2)) == [1, 2, 3]


@pytest.mark.parametrize(("start", "length"), [(6, None), (3, 3), (-1, 2), (0, -1)])
def test_span_lies_inside(rows, start, length):
    with pytest.raises(data.DataError, match=r"\[Span\]"):
        data.Span(rows(5), start, length)


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_partitions_cover_the_dataset_once(rows, labels, world_size):
    parts = [data.Partition(rows(5), rank, world_size) for rank in range(world_size)]
    assert labels(sample for part in parts for sample in part) == [0, 1, 2, 3, 4]
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_concat_joins_and_steps_over_empty_datasets(rows, labels):
    ds = data.Concat(rows(0), rows(2), rows(0), rows(3), rows(0))
    assert len(ds) == 5
    assert labels(ds) == [0, 1, 0, 1, 2]
    assert ds[-1][1].item() == 2


def test_concat_batches_across_borders_in_the_asked_order(rows):
    ds = data.Concat(rows(2), rows(3))
    x, y = ds.__getitems__([4, 0, 3, 1, 4])
    assert y.tolist() == [2, 0, 1, 1, 2]
    assert x.tolist() == [[2, -2], [0, 0], [1, -1], [1, -1], [2, -2]]
    named = data.Concat(data.TensorDataset(a=ft.arange(2)), data.TensorDataset(a=ft.arange(2)))
    assert named.__getitems__([3, 0])["a"].tolist() == [1, 0]


def test_concat_says_what_differs(rows):
    wide = data.TensorDataset(ft.zeros((2, 3)), ft.arange(2))
    with pytest.raises(data.DataError, match=r"field 0 differs.*\(2,\) float32 and \(3,\) float32"):
        data.Concat(rows(2), wide).__getitems__([0, 2])
    with pytest.raises(data.DataError, match="different fields"):
        data.Concat(rows(2), data.TensorDataset(ft.zeros((2, 2)))).__getitems__([0, 2])
    with pytest.raises(data.DataError, match="at least one dataset"):
        data.Concat()


def test_one_function_gets_the_sample(rows):
    ds = data.Transform(rows(3), lambda sample: {"x": sample[0] * 2, "y": sample[1]})
    assert ds[1]["x"].tolist() == [2.0, -2.0]


def test_functions_by_position_and_by_name(rows):
    ds = data.Transform(rows(3), None, lambda y: y + 10)
    assert (ds[2][0].tolist(), ds[2][1].item()) == ([2.0, -2.0], 12)
    assert data.Transform(rows(3), lambda x: x * 0, None)[2][1].item() == 2
    assert data.Transform(rows(3), fields={1: lambda y: y + 10})[2][1].item() == 12
    named = data.TensorDataset(a=ft.arange(3), b=ft.arange(3))
    both = data.Transform(named, fields={"b": lambda y: y + 10})[2]
    assert (both["a"].item(), both["b"].item()) == (2, 12)


def test_transform_around_batch_sees_batches(rows):
    ds = data.Transform(data.Batch(rows(4), 2), lambda batch: (batch[0].sum(),))
    assert ds[0][0].shape == ()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda ds: data.Transform(ds), "give one function"),
        (lambda ds: data.Transform(ds, len, fields={0: len}), "give one function"),
        (lambda ds: data.Transform(ds, 3), "not callable"),
        (lambda ds: data.Transform(ds, None, None, len)[0], r"fields \[2\]"),
        (lambda ds: data.Transform(ds, fields={"x": len})[0], r"fields \['x'\]"),
        (lambda ds: data.Transform(ds, lambda sample: sample[0])[0], "a tuple or a dict"),
        (lambda ds: data.RandomTransform(ds, 3), "not callable"),
        (lambda ds: data.RandomTransform(ds, len, seed=-1), "seed -1: a seed has 64 bits"),
    ],
)
def test_bad_transforms(rows, build, message):
    with pytest.raises(data.FlError, match=message):
        build(rows(3))


def jitter(sample, generator):
    return (sample[0] + generator.uniform((2,)), sample[1])


def test_random_transform_depends_on_seed_epoch_and_index_alone(rows):
    ds = data.RandomTransform(rows(3), jitter, seed=5)
    first = [ds[i][0].tolist() for i in range(3)]
    ft.rand((7,))
    again = data.RandomTransform(rows(3), jitter, seed=5)
    assert [again[i][0].tolist() for i in reversed(range(3))] == first[::-1]
    noise = [[a - i, b + i] for i, (a, b) in enumerate(first)]
    assert noise[0] != pytest.approx(noise[1])
    ds.set_epoch(1)
    assert ds[0][0].tolist() != first[0]
    assert data.RandomTransform(rows(3), jitter, seed=6)[0][0].tolist() != first[0]
