"""Passes one after the other: each is of the next epoch, unless `set_epoch` says which it is; and
seeds that were not given come from the default generator."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import fl_data as data
import fl_tensor as ft

N14 = pytest.mark.defect("N14")


def lengths(count: int = 20) -> list[int]:
    return [1 + i % 5 for i in range(count)]


#: Datasets and streams whose order or content is random, out of 20 samples.
RANDOM = {
    "shuffle": lambda rows: data.Batch(data.Shuffle(rows(20)), 5),
    "seeded": lambda rows: data.Batch(data.Shuffle(rows(20), seed=3), 5),
    "weighted": lambda rows: data.Weighted(rows(20), [1.0] * 20),
    "resample": lambda rows: data.Resample(rows(20), lambda g: g.permutation(20), 20),
    "transform": lambda rows: data.RandomTransform(
        rows(20), lambda s, g: (s[0] + g.uniform((2,)), s[1])
    ),
    "buckets": lambda rows: data.BucketBatch(rows(20), lengths(), size=5),
    "prefetch": lambda rows: data.Prefetch(data.Batch(data.Shuffle(rows(20)), 5), threads=2),
    "inside": lambda rows: data.Batch(data.Prefetch(data.Shuffle(rows(20)), threads=2), 5),
    "buckets around": lambda rows: data.BucketBatch(
        data.Prefetch(rows(20), threads=2), lengths(), size=5
    ),
    "processes": lambda rows: data.Prefetch(data.Batch(data.Shuffle(rows(20)), 5), processes=1),
    "stream": lambda rows: data.IterableStream(lambda: iter(list(rows(20)))).shuffle(20).batch(5),
    "shards": lambda rows: data.ShardStream(range(20), lambda i: [rows(20)[i]]).batch(5),
}


def values(source: Any) -> list[Any]:
    return [[field.tolist() for field in sample] for sample in source]


def close(source: Any) -> None:
    if isinstance(source, data.Prefetch):
        source.close()


@N14
@pytest.mark.parametrize("kind", RANDOM)
def test_a_further_pass_is_of_the_next_epoch(kind: str, rows: Any) -> None:
    source = RANDOM[kind](rows)
    passes = [values(source) for _ in range(3)]
    assert all(one != other for one, other in itertools.combinations(passes, 2))
    for epoch in (0, 1, 2):
        source.set_epoch(epoch)
        assert values(source) == passes[epoch]
        assert values(source) == passes[epoch], "set_epoch has said which"
    close(source)


@N14
@pytest.mark.parametrize("kind", [kind for kind in RANDOM if kind != "seeded"])
def test_without_a_seed_it_is_the_default_generator_that_decides(kind: str, rows: Any) -> None:
    def first_pass(seed: int) -> Any:
        ft.seed(seed)
        source = RANDOM[kind](rows)
        found = values(source)
        close(source)
        return found

    one, other, again = first_pass(1), first_pass(2), first_pass(1)
    assert one == again != other


@N14
def test_a_dataset_that_is_built_anew_each_time_has_another_order(rows: Any, labels: Any) -> None:
    ft.seed(1)
    state = ft.default_generator().state()
    orders = {tuple(labels(data.Batch(data.Shuffle(rows(20)), 5))) for _ in range(5)}
    assert len(orders) == 5
    assert ft.default_generator().state() == state, "no numbers are used up"
    ft.seed(1)
    again = {tuple(labels(data.Batch(data.Shuffle(rows(20)), 5))) for _ in range(5)}
    assert again == orders


def test_within_a_pass_samples_by_index_are_those_of_the_pass(rows: Any) -> None:
    ds = data.Shuffle(rows(20))
    for _ in range(3):
        seen = values(ds)
        assert [values([ds[i]])[0] for i in range(len(ds))] == seen


@N14
def test_a_pass_that_was_left_counts(rows: Any, labels: Any) -> None:
    ds = data.Shuffle(rows(20), seed=1)
    next(iter(ds))
    second = labels(ds)
    ds.set_epoch(1)
    assert second == labels(ds)


def test_an_iterator_that_handed_out_nothing_is_no_pass(rows: Any, labels: Any) -> None:
    ds = data.Shuffle(rows(20), seed=1)
    first, second = iter(ds), iter(ds)
    assert labels(first) == labels(second)
    pairs = zip(data.Shuffle(rows(9), seed=1), data.Shuffle(rows(9), seed=1), strict=True)
    assert all(a[1].item() == b[1].item() for a, b in pairs)


def test_going_on_in_the_middle_is_no_new_pass(rows: Any, labels: Any) -> None:
    ds = data.Shuffle(rows(20), seed=1)
    whole = labels(ds)
    assert labels(ds.iterate(5)) == whole[5:]


@N14
def test_another_pass_under_an_open_iterator_is_an_error(rows: Any) -> None:
    ds = data.Shuffle(rows(20))
    outer = iter(ds)
    next(outer)
    list(ds)
    with pytest.raises(data.IterationError, match="from epoch 0 to 1 .*begin no other"):
        next(outer)
    ds.set_epoch(0)
    assert len([(a, b) for a in ds for b in ds]) == 400, "set_epoch fixes it for both"


def test_what_depends_on_no_epoch_has_none(rows: Any) -> None:
    ds = data.Batch(rows(20), 5)
    assert values(ds) == values(ds)
    assert ds.epoch == 0


@pytest.mark.parametrize("kind", [k for k in RANDOM if k not in ("processes", "resample")])
@pytest.mark.parametrize("stop", [0, 2, 4])
def test_a_state_holds_what_was_drawn(kind: str, stop: int, rows: Any) -> None:
    ft.seed(7)
    source = RANDOM[kind](rows)
    values(source)
    iterator = iter(source)
    for _ in range(stop):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest, after = values(iterator), values(source)

    ft.seed(99)
    other = RANDOM[kind](rows)
    resumed = iter(other)
    resumed.load_state(state)
    assert values(resumed) == rest
    assert values(other) == after, "and the next pass is of the next epoch"


def test_a_state_of_other_seeds_is_refused(rows: Any) -> None:
    state = iter(data.Shuffle(rows(20))).state()
    assert len(state["seeds"]) == 1
    assert "seeds" not in iter(data.Shuffle(rows(20), seed=3)).state()
    with pytest.raises(data.DataError, match="holds 1 seeds that were drawn, here are 0"):
        iter(data.Shuffle(rows(20), seed=3)).load_state(state)


def test_a_state_without_seeds_is_of_the_time_when_they_were_0(rows: Any, labels: Any) -> None:
    whole = labels(data.Shuffle(rows(20), seed=0))
    resumed = iter(data.Shuffle(rows(20)))
    resumed.load_state({"epoch": 0, "position": 7, "length": 20})
    assert labels(resumed) == whole[7:]


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_agree_on_an_order_without_a_seed(rows: Any, world_size: int) -> None:
    def epochs(rank: int) -> list[list[Any]]:
        ft.seed(rank)
        batches = data.Batch(data.Shuffle(rows(20)), 6, rank=rank, world_size=world_size)
        return [[batch[1].tolist() for batch in batches] for _ in range(2)]

    shares = [epochs(rank) for rank in range(world_size)]
    assert shares[0][0] != shares[0][1]
    for epoch in range(2):
        seen = [label for rank in shares for batch in rank[epoch] for label in batch]
        assert sorted(seen) == list(range(20))
    parts = [data.Partition(data.Shuffle(rows(20)), r, world_size) for r in range(world_size)]
    assert sorted(label.item() for part in parts for _, label in part) == list(range(20))


@pytest.mark.defect("V12")
@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_seeds_beyond_64_bits_are_refused(rows: Any, seed: int) -> None:
    stream = data.IterableStream(lambda: [])
    for build in (
        lambda: data.Shuffle(rows(3), seed=seed),
        lambda: data.Weighted(rows(3), [1, 1, 1], seed=seed),
        lambda: data.Resample(rows(3), lambda g: [0], 1, seed=seed),
        lambda: data.RandomTransform(rows(3), lambda s, g: s, seed=seed),
        lambda: data.BucketBatch(rows(3), [1, 1, 1], size=1, seed=seed),
        lambda: data.ShardStream([1], lambda s: [], seed=seed),
        lambda: stream.shuffle(3, seed=seed),
        lambda: stream.random_map(lambda s, g: s, seed=seed),
        lambda: data.mix(seed, 1),
    ):
        with pytest.raises(ft.ArgumentError, match="a seed has 64 bits"):
            build()
