"""Batches of numbers, lists and arrays in one pass, many samples at once, errors that name one."""

from __future__ import annotations

import random
import traceback
from array import array

import numpy as np
import pytest

import fl_data as data
import fl_tensor as ft


class Rows(data.Dataset):
    """Sample `i` is `make(i)`."""

    def __init__(self, n, make):
        self.n, self.make = n, make

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return self.make(data.check_index(index, self.n, "Rows"))


MAKERS = {
    "list": lambda i: [i / 2, i / 4],
    "list of ints": lambda i: [i, -i],
    "nested": lambda i: [[i], [2 * i]],
    "array": lambda i: array("f", [i, 1.5]),
    "numpy": lambda i: np.array([i, 0.5], np.float64),
    "numpy of 16 bits": lambda i: np.full((2, 3), i, np.float16),
    "scalar": lambda i: np.float64(i),
    "integer scalar": lambda i: np.int8(i),
    "bool": lambda i: i % 2 == 0,
    "float": float,
    "tensor": lambda i: ft.full((3,), i),
    "0-d": lambda i: ft.asarray(float(i)),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_field_is_what_its_samples_are_one_by_one(kind):
    make = MAKERS[kind]
    samples = [(make(i), i) for i in range(5)]
    found, numbers = data.collate(samples)
    wanted = ft.stack([ft.asarray(value) for value, _ in samples])
    assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()
    assert numbers.tolist() == list(range(5)) and numbers.dtype == ft.int64
    (named,) = data.collate([{"x": make(i)} for i in range(5)]).values()
    assert named.tolist() == wanted.tolist() and named.dtype == wanted.dtype


def test_what_differs_is_named():
    with pytest.raises(data.DataError, match=r"field 0: sample 0 .* \(2,\).* sample 2 is \(1,\)"):
        data.collate([([1, 2],), ([3, 4],), ([5],)])
    with pytest.raises(data.DataError, match="field 0: .*float32.*sample 1 is .*float64"):
        data.collate([(np.zeros(2, np.float32),), (np.zeros(2),)])
    with pytest.raises(data.DataError, match="field 0: .*int64.*sample 1 is .*float32"):
        data.collate([(1,), (2.0,)])
    with pytest.raises(data.SampleTypeError, match="field 0 holds a list"):
        data.collate([([1, "two"],), ([1, "two"],)])
    with pytest.raises(data.DataError, match="sample 0 .* fields .0. and sample 1"):
        data.collate([(1,), (2, 3)])


def test_token_lists_are_padded():
    tokens, lengths = data.pad_collate(-1, lengths=True)([([1, 2],), ([3],), ([4, 5, 6],)])
    assert tokens.tolist() == [[1, 2, -1], [3, -1, -1], [4, 5, 6]]
    assert lengths.tolist() == [2, 1, 3]


class Many:
    """As PyTorch's data sets: `__getitems__` gives a list of samples."""

    def __init__(self):
        self.asked = []

    def __len__(self):
        return 20

    def __getitem__(self, index):
        raise AssertionError("one by one")

    def __getitems__(self, indices):
        self.asked.append(indices)
        return [(float(i), [i, i]) for i in indices]


def test_many_samples_at_once_pass_through_every_view():
    source = Many()
    views = data.Concat(data.Span(data.Subset(data.Shuffle(source, seed=1), range(12)), 2, 8))
    wanted = data.Shuffle(Rows(20, lambda i: (i,)), seed=1).order[2:6]
    first, rows = next(iter(data.Batch(data.Prefetch(views, threads=0), 4)))
    assert first.tolist() == wanted.tolist() and rows.tolist() == [[i, i] for i in wanted]
    assert source.asked == [wanted.tolist()]


def bad(i):
    if i == 13:
        raise ValueError("no number in 'x1'")
    return (i,)


@pytest.mark.parametrize("workers", [{"threads": 0}, {"threads": 2}, {"processes": 1}])
@pytest.mark.parametrize("collate", [None, data.pad_collate()])
def test_an_error_in_a_batch_names_the_sample(workers, collate):
    batches = data.Prefetch(data.Batch(Rows(20, bad), 8, collate=collate), **workers)
    with pytest.raises((ValueError, data.WorkerError)) as caught:
        list(batches)
    error = caught.value if workers.get("threads") == 0 else caught.value.__cause__
    assert error.__notes__ == ["sample 13 of Rows"]
    if workers.get("processes"):
        assert "sample 13 of Rows" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("workers", [{"threads": 0}, {"threads": 2}])
def test_passes_are_resumed_exactly_at_random_moments(workers):
    """200 moments in all, over views that depend on the epoch."""
    draw = random.Random(2022)

    def made():
        rows = data.Concat(Rows(30, lambda i: (i,)), Rows(17, lambda i: (100 + i,)))
        jitter = data.RandomTransform(
            data.Shuffle(rows, seed=1), lambda s, g: (s[0], g.integers(0, 1 << 30).item()), seed=2
        )
        return data.Prefetch(data.Batch(jitter, 4), **workers)

    whole = {}
    for epoch in range(3):
        batches = made()
        batches.set_epoch(epoch)
        whole[epoch] = [[x.tolist() for x in batch] for batch in batches]
    for _ in range(100):
        epoch, taken = draw.randrange(3), draw.randrange(len(whole[0]) + 1)
        batches = made()
        batches.set_epoch(epoch)
        iterator = iter(batches)
        for _ in range(taken):
            next(iterator)
        state = iterator.state()
        iterator.close()
        resumed = iter(made())
        resumed.load_state(state)
        assert [[x.tolist() for x in batch] for batch in resumed] == whole[epoch][taken:]
