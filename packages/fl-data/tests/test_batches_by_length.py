"""Round robin, dynamic batches and buckets."""

from __future__ import annotations

import pickle

import pytest

import fl_data as data
import fl_tensor as ft

LENGTHS = [2, 4, 1, 2, 3, 7, 4, 3]


class Runs(data.Dataset):
    """Sample `i` is `lengths[i]` times the number `i`, and `i`."""

    def __init__(self, lengths):
        self.lengths = list(lengths)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        i = data.check_index(index, len(self), "Runs")
        return ft.full((self.lengths[i],), i), i


def test_ranks_take_turns():
    turns = [data.partition_by_round_robin(11, rank, 2, 2) for rank in range(2)]
    assert turns == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10]]


def test_a_last_round_with_fewer_samples_than_ranks_is_left_out_unless_allowed():
    assert [data.partition_by_round_robin(9, rank, 2, 2) for rank in range(2)] == [
        [0, 1, 4, 5],
        [2, 3, 6, 7],
    ]
    assert [
        data.partition_by_round_robin(9, rank, 2, 2, allow_empty=True) for rank in range(2)
    ] == [
        [0, 1, 4, 5, 8],
        [2, 3, 6, 7],
    ]


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 7, 24, 31])
def test_all_ranks_together_take_each_sample_once(count, world_size):
    parts = [
        data.partition_by_round_robin(count, r, world_size, 3, True) for r in range(world_size)
    ]
    assert sorted(sample for part in parts for sample in part) == list(range(count))


def test_dynamic_batches_are_bounded_after_padding():
    parts = [data.dynamic_partition_by_round_robin(LENGTHS, rank, 2, 12) for rank in range(2)]
    assert parts == [([0, 1, 2, 5], [3, 1]), ([3, 4, 6, 7], [2, 2])]


def test_a_last_round_with_as_many_batches_as_ranks_is_kept():
    assert data.dynamic_partition_by_round_robin([1, 1], 1, 2, 1) == ([1], [1])


def test_a_last_round_with_too_few_batches_is_split():
    # Batches that fit: [0, 1, 2], and nothing for rank 1.
    parts = [data.dynamic_partition_by_round_robin([3, 3, 3], rank, 2, 9) for rank in range(2)]
    assert parts == [([0, 1], [2]), ([2], [1])]
    alone = [data.dynamic_partition_by_round_robin([3], rank, 2, 9) for rank in range(2)]
    assert alone == [([], []), ([], [])]
    given = [data.dynamic_partition_by_round_robin([3], rank, 2, 9, True) for rank in range(2)]
    assert given == [([0], [1]), ([], [0])]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.partition_by_round_robin(4, 2, 2, 1), "rank 2 does not exist"),
        (lambda: data.partition_by_round_robin(4, 0, 2, 0), "batch_size must be at least 1"),
        (lambda: data.dynamic_partition_by_round_robin([1], 2, 2, 4), "rank 2 does not exist"),
        (lambda: data.dynamic_partition_by_round_robin([1, 5], 0, 1, 4), "sample 1 has length 5"),
        (lambda: data.dynamic_partition_by_round_robin([-1], 0, 1, 4), "length 0 is -1"),
        (lambda: data.dynamic_partition_by_round_robin([1], 0, 1, 0), "max_size must be above 0"),
        (lambda: data.DynamicBatch(Runs([1]), [1, 1], 4), "2 lengths for 1 samples"),
        (lambda: data.BucketBatch(Runs([1]), [1]), "either size or max_size"),
        (lambda: data.BucketBatch(Runs([1]), [1], size=0), "size must be at least 1"),
        (lambda: data.BucketBatch(Runs([9]), [9], max_size=8), "length 9, more than max_size 8"),
        (lambda: data.BucketBatch(Runs([9]), [9], size=1, boundaries=[2, 2]), "must increase"),
        (lambda: data.Batch(Runs([1]), [1, 1]), "2 samples in all, but there are 1"),
    ],
)
def test_what_cannot_be_is_an_error(call, message):
    with pytest.raises(data.DataError, match=message):
        call()


def test_the_sizes_of_a_partition_make_batches():
    samples, sizes = data.dynamic_partition_by_round_robin(LENGTHS, 0, 2, 12)
    ds = data.Subset(Runs(LENGTHS), samples)
    batches = data.Batch(ds, sizes, collate=data.pad_collate())
    assert [batch[1].tolist() for batch in batches] == [[0, 1, 2], [5]]


def test_dynamic_batch_does_both():
    for rank, expected in enumerate([[[0, 1, 2], [5]], [[3, 4], [6, 7]]]):
        ds = data.DynamicBatch(Runs(LENGTHS), LENGTHS, 12, rank=rank, world_size=2)
        assert [batch[1].tolist() for batch in ds] == expected
        assert [batch[0].shape for batch in ds] == [
            (len(b), max(LENGTHS[i] for i in b)) for b in expected
        ]
        assert [ds.counts(i) for i in range(2)] == [(len(expected[0]), 5), (len(expected[1]), 3)]


def batches_of(ds):
    return [batch[1].tolist() for batch in ds]


def test_buckets_hold_samples_of_similar_length():
    ds = data.BucketBatch(Runs(LENGTHS), LENGTHS, size=2, boundaries=[2, 4])
    bucket = {i: 0 if n <= 2 else 1 if n <= 4 else 2 for i, n in enumerate(LENGTHS)}
    found = batches_of(ds)
    assert sorted(i for batch in found for i in batch) == list(range(8))
    assert all(len({bucket[i] for i in batch}) == 1 for batch in found)
    assert sorted(map(len, found)) == [1, 1, 2, 2, 2]


def test_buckets_can_be_bounded_by_padded_size():
    lengths = [1 + i % 20 for i in range(200)]
    ds = data.BucketBatch(Runs(lengths), lengths, max_size=40, boundaries=5)
    batches = list(ds)
    assert all(x.size <= 40 for x, _ in batches)
    real, padded = sum(lengths), sum(x.size for x, _ in batches)
    assert padded < 1.25 * real  # in order, without buckets, it would be 1.9 times


def test_every_epoch_has_new_batches_and_they_resume():
    lengths = [1 + i % 20 for i in range(100)]

    def make():
        return data.BucketBatch(Runs(lengths), lengths, size=8, seed=5)

    ds = make()
    epochs = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        epochs.append(batches_of(ds))
        assert sorted(i for batch in epochs[-1] for i in batch) == list(range(100))
    assert len({str(batches) for batches in epochs}) == 3
    assert len({len(batches) for batches in epochs}) == 1
    iterator = iter(ds)
    next(iterator)
    resumed = iter(make())
    resumed.load_state(iterator.state())
    assert batches_of(resumed) == epochs[2][1:]
    assert batches_of(pickle.loads(pickle.dumps(ds))) == epochs[2]


def test_long_and_short_batches_take_turns():
    lengths = [1 + i % 20 for i in range(200)]
    widths = [x.shape[1] for x, _ in data.BucketBatch(Runs(lengths), lengths, size=8)]
    assert widths not in (sorted(widths), sorted(widths, reverse=True))
    assert max(widths[: len(widths) // 2]) > min(widths[len(widths) // 2 :])


def test_buckets_in_order_and_whole_batches_only():
    ds = data.BucketBatch(
        Runs(LENGTHS), LENGTHS, size=3, boundaries=[2], shuffle=False, skip_last=True
    )
    assert batches_of(ds) == [[0, 2, 3], [1, 4, 5]]


def test_ranks_share_each_bucketed_batch():
    parts = [
        data.BucketBatch(Runs(LENGTHS), LENGTHS, size=4, boundaries=2, rank=rank, world_size=3)
        for rank in range(3)
    ]
    whole = data.BucketBatch(Runs(LENGTHS), LENGTHS, size=4, boundaries=2, seed=0)
    for i, batch in enumerate(whole):
        shares = [part[i][1].tolist() for part in parts]
        assert sum(shares, []) == batch[1].tolist()
        everywhere = len(batch[1].tolist())
        assert [part.counts(i) for part in parts] == [(len(s), everywhere) for s in shares]


def test_no_samples_make_no_batches():
    assert len(data.BucketBatch(Runs([]), [], size=2)) == 0
    assert len(data.DynamicBatch(Runs([]), [], 4)) == 0
