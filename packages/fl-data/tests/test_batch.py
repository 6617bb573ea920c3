"""Batches: sizes, policies, collating, and the share of every rank."""

from __future__ import annotations

import pytest

import fl_data as data
import fl_tensor as ft


def test_fields_are_stacked_along_a_new_first_axis(rows):
    x, y = data.Batch(rows(5), 2)[1]
    assert x.tolist() == [[2.0, -2.0], [3.0, -3.0]]
    assert y.tolist() == [2, 3]
    assert (x.dtype, y.dtype) == (ft.float32, ft.int64)


@pytest.mark.parametrize(
    ("n", "policy", "sizes"),
    [
        (5, "include_last", [2, 2, 1]),
        (4, "include_last", [2, 2]),
        (5, "skip_last", [2, 2]),
        (1, "skip_last", []),
        (4, "divisible_only", [2, 2]),
        (0, "include_last", []),
    ],
)
def test_policy_decides_about_the_last_batch(rows, n, policy, sizes):
    batches = data.Batch(rows(n), 2, policy)
    assert len(batches) == len(sizes)
    assert [batch[1].shape[0] for batch in batches] == sizes
    assert [batches.counts(i) for i in range(len(sizes))] == [(k, k) for k in sizes]


def test_divisible_only_refuses_a_remainder(rows):
    with pytest.raises(data.DataError, match="5 samples are no multiple of the batch size 2"):
        data.Batch(rows(5), 2, "divisible_only")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"size": 2.0}, "size is an integer"),
        ({"size": 2, "policy": "drop"}, "unknown policy 'drop'"),
        ({"size": 2, "rank": 2, "world_size": 2}, "rank 2 does not exist among 2 ranks"),
        ({"size": 2, "rank": -1}, "rank must be at least 0"),
        ({"size": 2, "world_size": 0}, "world_size must be at least 1"),
        ({"size": 2, "collate": 3}, "not callable"),
    ],
)
def test_bad_settings_are_refused_at_construction(rows, arguments, message):
    with pytest.raises(data.FlError, match=message):
        data.Batch(rows(4), **arguments)


def test_tensor_datasets_are_batched_without_single_samples(rows, monkeypatch):
    ds = rows(6)
    monkeypatch.setattr(data.TensorDataset, "__getitem__", lambda *_: pytest.fail("single sample"))
    shuffled = data.Shuffle(data.Span(data.Subset(data.Concat(ds), range(6)), 0))
    assert sorted(data.Batch(shuffled, 6)[0][1].tolist()) == list(range(6))


def test_a_custom_collate_gets_the_samples(numbers):
    batches = data.Batch(numbers(5), 2, collate=lambda samples: (ft.asarray(len(samples)),))
    assert [batch[0].item() for batch in batches] == [2, 2, 1]


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("n", [1, 4, 12, 13])
@pytest.mark.parametrize("policy", ["include_last", "skip_last"])
def test_the_ranks_together_hold_every_global_batch_exactly(rows, n, world_size, policy):
    whole = data.Batch(rows(n), 4, policy)
    parts = [
        data.Batch(rows(n), 4, policy, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    assert {len(part) for part in parts} == {len(whole)}
    for i in range(len(whole)):
        locals_ = [part[i] for part in parts]
        for field in (0, 1):
            joined = ft.concatenate([batch[field] for batch in locals_], axis=0)
            assert joined.tolist() == whole[i][field].tolist()
        sizes = [batch[1].shape[0] for batch in locals_]
        assert max(sizes) - min(sizes) <= 1
        assert [part.counts(i) for part in parts] == [(k, sum(sizes)) for k in sizes]


@pytest.mark.parametrize("collate", [None, data.pad_collate()])
def test_a_rank_without_samples_gets_fields_of_length_zero(numbers, collate):
    last = data.Batch(numbers(5), 4, collate=collate, rank=1, world_size=2)[1]
    assert [field.shape for field in last] == [(0, 1), (0,)]
    assert [field.dtype for field in last] == [ft.float32, ft.int64]


def test_collate_names_the_field_and_the_sample_that_differ():
    samples = [(ft.zeros((2,)), 1), (ft.zeros((2,)), 1), (ft.zeros((3,)), 1)]
    with pytest.raises(data.DataError, match=r"field 0.*\(2,\).*sample 2 is \(3,\).*pad_collate"):
        data.collate(samples)
    with pytest.raises(data.DataError, match="sample 1 has"):
        data.collate([{"a": ft.zeros(())}, {"b": ft.zeros(())}])
    with pytest.raises(data.DataError, match="same fields"):
        data.collate([(ft.zeros(()),), (ft.zeros(()), 1)])
    with pytest.raises(data.SampleTypeError, match="field 0 holds a str"):
        data.collate([("text",)])
    with pytest.raises(data.DataError, match="no samples"):
        data.collate([])


def test_pad_collate_pads_each_axis_to_the_largest():
    samples = [(ft.ones((1, 2)), 0), (ft.ones((2, 1)), 1)]
    x, y = data.pad_collate(fill=-1)(samples)
    assert x.tolist() == [[[1, 1], [-1, -1]], [[1, -1], [1, -1]]]
    assert y.tolist() == [0, 1]


def test_pad_collate_tells_the_lengths_on_request():
    samples = [{"ids": ft.arange(3), "label": 0}, {"ids": ft.arange(1), "label": 1}]
    batch = data.pad_collate(fill={"ids": 9}, lengths=True)(samples)
    assert sorted(batch) == ["ids", "ids_lengths", "label"]
    assert batch["ids"].tolist() == [[0, 1, 2], [0, 9, 9]]
    assert batch["ids_lengths"].tolist() == [3, 1]
    pairs = [(ft.arange(3), 0), (ft.arange(1), 1)]
    assert [field.tolist() for field in data.pad_collate(lengths=True)(pairs)] == [
        [[0, 1, 2], [0, 0, 0]],
        [0, 1],
        [3, 1],
    ]


def test_pad_collate_needs_the_same_number_of_axes():
    with pytest.raises(data.DataError, match=r"field 0 .* \[1, 2\] axes"):
        data.pad_collate()([(ft.zeros((2,)),), (ft.zeros((2, 2)),)])


def test_join_pads_to_the_largest_and_stacks():
    x, y = ft.ones((1, 2)), ft.ones((2, 1)) * 2
    assert data.join([x, y], fill=9).tolist() == [[[1, 1], [9, 9]], [[2, 9], [2, 9]]]
    assert data.join([x, y], axis=-1).tolist() == [[[1, 2], [1, 0]], [[0, 2], [0, 0]]]
    assert data.join([]).shape == (0,)


def test_join_needs_one_rank_and_one_dtype():
    with pytest.raises(data.DataError, match="1 axes of float32, 2 axes of float32"):
        data.join([ft.ones(2), ft.ones((2, 2))])
    with pytest.raises(data.DataError, match="1 axes of float32, 1 axes of int64"):
        data.join([ft.ones(2), ft.ones(2, ft.int64)])


def test_pad_to_appends_and_never_cuts():
    x = ft.asarray([[1, 2], [3, 4]])
    assert data.pad_to(x, (3, 3), fill=9).tolist() == [[1, 2, 9], [3, 4, 9], [9, 9, 9]]
    assert data.pad_to(x, (2, 2)).tolist() == x.tolist()
    for shape in ((2, 1), (2,), (2, 2, 1)):
        with pytest.raises(data.DataError, match=r"\[pad_to\] \(2, 2\) cannot be padded"):
            data.pad_to(x, shape)
