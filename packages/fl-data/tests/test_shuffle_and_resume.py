"""The order of epochs, and going on at the exact sample."""

from __future__ import annotations

from collections import Counter

import pytest

import fl_data as data
import fl_tensor as ft


def pipeline(ds, threads=0):
    jittered = data.RandomTransform(
        data.Shuffle(ds, seed=7), lambda s, gen: (s[0] + gen.uniform((2,)), s[1]), seed=1
    )
    return data.Prefetch(data.Batch(jittered, 4), threads=threads, depth=3)


def values(batches):
    return [(x.tolist(), y.tolist()) for x, y in batches]


def test_every_epoch_is_another_permutation(rows, labels):
    ds = data.Shuffle(rows(50), seed=1)
    orders = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        orders.append(labels(ds))
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in [*orders, list(range(50))]}) == 4


def test_the_order_depends_on_seed_and_epoch_alone(rows, labels):
    one, two = data.Shuffle(rows(20), seed=1), data.Shuffle(rows(20), seed=1)
    for epoch in range(5):
        one.set_epoch(epoch)
        labels(one)
    ft.rand((3,))
    two.set_epoch(4)
    assert labels(one) == labels(two)
    assert labels(data.Shuffle(rows(20), seed=2)) != labels(data.Shuffle(rows(20), seed=1))


def test_resample_goes_to_the_next_epoch(rows, labels):
    one, two = data.Shuffle(rows(20), seed=0), data.Shuffle(rows(20), seed=0)
    one.resample()
    two.set_epoch(1)
    assert (one.epoch, labels(one)) == (1, labels(two))


def test_all_permutations_are_about_equally_likely(rows):
    ds = data.Shuffle(rows(3), seed=0)
    counts: Counter[tuple[int, ...]] = Counter()
    for epoch in range(600):
        ds.set_epoch(epoch)
        counts[tuple(ds.order)] += 1
    assert len(counts) == 6
    # chi-square with 5 degrees of freedom; 20.5 is the 0.001 point
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 20.5


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_datasets_can_be_shuffled(rows, labels, n):
    assert sorted(labels(data.Shuffle(rows(n)))) == list(range(n))


@pytest.mark.parametrize("epoch", [-1, 1.5, True])
def test_an_epoch_is_a_natural_number(rows, epoch):
    with pytest.raises(data.FlError, match="epoch"):
        data.Shuffle(rows(3)).set_epoch(epoch)


def test_set_epoch_reaches_the_shuffle_from_the_outermost_dataset(rows):
    ds = pipeline(rows(20))
    ds.set_epoch(3)
    assert ds.epoch == 3
    other = pipeline(rows(20))
    assert values(ds) != values(other)
    other.set_epoch(3)
    assert values(ds) == values(other)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 3, 5])
def test_a_resumed_iteration_goes_on_with_the_exact_next_sample(rows, threads, stop):
    ds = pipeline(rows(18), threads)
    ds.set_epoch(2)
    complete = values(ds)
    with iter(ds) as first:
        before = values(next(first) for _ in range(stop))
        state = first.state()
    assert state == {"epoch": 2, "position": stop, "length": 5}

    fresh = pipeline(rows(18), threads)
    with iter(fresh) as second:
        second.load_state(state)
        assert before + values(second) == complete
    assert fresh.epoch == 2


@pytest.mark.parametrize("threads", [0, 2])
def test_an_iterator_can_be_set_back(rows, threads):
    iterator = iter(pipeline(rows(18), threads))
    first = values([next(iterator), next(iterator)])
    iterator.load_state({"epoch": 0, "position": 0, "length": 5})
    assert values([next(iterator), next(iterator)]) == first
    iterator.close()


def test_iterate_starts_anywhere(rows, labels):
    ds = rows(5)
    assert labels(data.iterate(ds, 3)) == [3, 4]
    assert labels(data.iterate(ds, 5)) == []
    assert data.iterate(ds, 2).__length_hint__() == 3
    for start in (6, -1):
        with pytest.raises(data.DataError, match="start position"):
            data.iterate(ds, start)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"position": 1}, r"lacks \['epoch', 'length'\]"),
        ({"epoch": 0, "position": 1, "length": 6}, "6 samples, this one has 5"),
        ({"epoch": 0, "position": 6, "length": 5}, "beyond"),
        ({"epoch": -1, "position": 0, "length": 5}, "epoch must be"),
        ({"epoch": 0, "position": "1", "length": 5}, "is an integer"),
    ],
)
def test_a_foreign_state_is_refused_and_changes_nothing(rows, labels, state, message):
    iterator = iter(rows(5))
    next(iterator)
    with pytest.raises(data.FlError, match=message):
        iterator.load_state(state)
    assert labels(iterator) == [1, 2, 3, 4]


@pytest.mark.parametrize("threads", [0, 2])
def test_changing_the_epoch_under_an_open_iterator_is_an_error(rows, threads):
    ds = pipeline(rows(18), threads)
    iterator = iter(ds)
    next(iterator)
    ds.set_epoch(1)
    with pytest.raises(data.IterationError, match="from epoch 0 to 1"):
        next(iterator)
    iterator.close()


def test_a_backend_without_values_gives_the_shapes_of_every_batch():
    with ft.use("null"):
        ds = data.Batch(data.Shuffle(data.TensorDataset(ft.zeros((10, 3)), ft.zeros((10,)))), 4)
        assert [[field.shape for field in batch] for batch in ds] == [
            [(4, 3), (4,)],
            [(4, 3), (4,)],
            [(2, 3), (2,)],
        ]


@pytest.mark.parametrize("before, after", [(1, 2), (2, 1)])
def test_another_number_of_ranks_goes_on_with_the_order_of_those_before(rows, before, after):
    def batches(rank, world_size):
        place = {"rank": rank, "world_size": world_size}
        return data.Batch(data.Shuffle(rows(30)), 8, **place)

    ft.seed(5)
    first = [batches(rank, before).iterate(0) for rank in range(before)]
    whole = [sample for parts in zip(*first) for part in parts for sample in part[1].tolist()]
    ft.seed(6)  # one rank draws another seed
    state = batches(0, before).iterate(0).state() if before > 1 else first[0].state()
    rest = [batches(rank, after).iterate(0) for rank in range(after)]
    for iterator in rest:
        iterator.load_state({**state, "position": 1})
    found = [sample for parts in zip(*rest) for part in parts for sample in part[1].tolist()]
    assert found == whole[8:]
