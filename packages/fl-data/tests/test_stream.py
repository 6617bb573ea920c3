"""Streams: samples one after the other, shared among ranks, shuffled, and resumed exactly."""

from __future__ import annotations

import json
import threading
from itertools import count

import pytest

import fl_data as data
import fl_tensor as ft


def count_to(n):
    """A stream of (0,), (1,), ... from an iterable that can only be read in order."""
    return data.IterableStream(lambda: ((i,) for i in range(n)))


def numbers(stream):
    return [sample[0] for sample in stream]


def flat(stream):
    return [i for (batch,) in stream for i in batch.tolist()]


def shards_of(many, size=5, **kwargs):
    """`many` shards of `size` numbers each, as generators."""
    return data.ShardStream(
        range(many), lambda shard: ((shard * size + i,) for i in range(size)), **kwargs
    )


def pipeline():
    jitter = lambda s, generator: (s[0] + 1000 * generator.integers(0, 9).item(),)  # noqa: E731
    stream = shards_of(6, seed=3).shuffle(8, seed=4).random_map(jitter, seed=5)
    return stream.filter(lambda s: s[0] % 7).map(lambda s: (s[0] + 1,)).batch(4)


def test_a_pass_begins_anew_each_time():
    stream = count_to(4)
    assert numbers(stream) == numbers(stream) == [0, 1, 2, 3]
    assert stream.epoch == 1, "every pass is an epoch"


def test_functions_and_batches():
    stream = count_to(7).map(lambda s: (s[0] * 2,)).filter(lambda s: s[0] != 4)
    assert numbers(stream) == [0, 2, 6, 8, 10, 12]
    assert [batch.tolist() for (batch,) in stream.batch(4)] == [[0, 2, 6, 8], [10, 12]]
    assert [batch.tolist() for (batch,) in stream.batch(4, skip_last=True)] == [[0, 2, 6, 8]]
    longer = count_to(3).map(lambda s: (ft.ones((s[0],)),))
    assert next(iter(longer.batch(3, data.pad_collate())))[0].shape == (3, 2)
    assert numbers(count_to(9).take(3)) == [0, 1, 2]


def test_take_does_not_read_what_lies_behind():
    def two():
        yield (0,)
        yield (1,)
        pytest.fail("read on")

    assert numbers(data.IterableStream(two).take(2)) == [0, 1]


@pytest.mark.parametrize(("n", "buffer"), [(0, 3), (1, 3), (10, 3), (10, 1), (10, 50), (12, 4)])
def test_shuffling_keeps_every_sample_once_within_its_block(n, buffer):
    found = numbers(count_to(n).shuffle(buffer, seed=1))
    assert sorted(found) == list(range(n))
    assert [i // buffer for i in found] == [i // buffer for i in range(n)]


def test_every_epoch_is_another_order_which_seed_and_epoch_alone_decide():
    stream = shards_of(6, seed=1).shuffle(10, seed=2)
    orders = []
    for epoch in range(3):
        stream.set_epoch(epoch)
        orders.append(numbers(stream))
    assert all(sorted(order) == list(range(30)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    other = shards_of(6, seed=1).shuffle(10, seed=2)
    other.set_epoch(2)
    assert numbers(other) == orders[2]


def test_every_block_has_an_order_of_its_own():
    found = numbers(count_to(60).shuffle(10))
    assert (
        len({tuple(i % 10 for i in found[start : start + 10]) for start in range(0, 60, 10)}) == 6
    )


def test_datasets_in_shards_are_told_the_epoch(rows):
    stream = data.ShardStream([data.Shuffle(rows(9))], lambda ds: ds)
    first = [sample[1].item() for sample in stream]
    stream.set_epoch(1)
    assert [sample[1].item() for sample in stream] != first


def test_at_most_two_buffers_are_read_ahead():
    read = []
    source = data.IterableStream(lambda: (read.append(i) or (i,) for i in range(100)))
    for handed_out, _ in enumerate(source.shuffle(10), 1):
        assert len(read) <= min(100, handed_out + 10)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ranks_share_shards_or_samples(world_size):
    parts = [numbers(shards_of(7, rank=r, world_size=world_size)) for r in range(world_size)]
    assert sorted(sum(parts, [])) == list(range(35))
    parts = [numbers(count_to(11).share(rank, world_size)) for rank in range(world_size)]
    assert {len(part) for part in parts} == {11 // world_size}
    assert sorted(sum(parts, [])) == list(range(11 - 11 % world_size))


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("epoch", [0, 2])
def test_a_resumed_pass_goes_on_with_the_exact_next_sample(epoch, prefetch):
    def make():
        return pipeline().prefetch(prefetch) if prefetch else pipeline()

    stream = make()
    stream.set_epoch(epoch)
    whole = [batch.tolist() for (batch,) in stream]
    assert len(whole) >= 6
    for stop in range(len(whole) + 1):
        with iter(stream) as first:
            seen = [next(first)[0].tolist() for _ in range(stop)]
            state = json.loads(json.dumps(first.state()))
        resumed = iter(make())
        resumed.load_state(state)
        assert seen + [batch.tolist() for (batch,) in resumed] == whole


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.take(9),
        lambda s: s.share(1, 2),
        lambda s: s.shuffle(4).share(0, 3).batch(2),
        lambda s: s.shuffle(4, seed=0).shuffle(7, seed=0),
        lambda s: s.take(20).shuffle(6, seed=0).take(15),
    ],
)
def test_every_part_resumes(change):
    whole = list(change(shards_of(5, seed=0)))
    for stop in range(len(whole) + 1):
        first = iter(change(shards_of(5, seed=0)))
        seen = [next(first) for _ in range(stop)]
        resumed = iter(change(shards_of(5, seed=0)))
        resumed.load_state(first.state())
        assert str(seen + list(resumed)) == str(whole)


def test_datasets_are_shards_that_go_to_their_place_at_once(tmp_path, rows):
    for shard in range(3):
        with data.FileBlob(tmp_path / f"{shard}.blob", "w") as blob:
            for i in range(4):
                blob.add((shard * 4 + i,))
    paths = sorted(tmp_path.glob("*.blob"))
    stream = data.ShardStream(paths, data.FileBlob, seed=1)
    stream.set_epoch(0)
    whole = numbers(stream)
    assert sorted(whole) == list(range(12))
    iterator = iter(stream)
    for _ in range(6):
        next(iterator)
    asked = []

    class Noted(data.FileBlob):
        def __getitem__(self, index):
            asked.append(index)
            return super().__getitem__(index)

    resumed = iter(data.ShardStream(paths, Noted, seed=1))
    resumed.load_state(iterator.state())
    assert numbers(resumed) == whole[6:]
    assert asked == [2, 3, 0, 1, 2, 3]


def test_what_was_opened_is_closed():
    closed = []

    def shard(name):
        try:
            yield from ((name, i) for i in range(3))
        finally:
            closed.append(name)

    stream = data.ShardStream("ab", shard, shuffle=False)
    iterator = iter(stream.batch(2, collate=lambda samples: samples[0]))
    assert next(iterator) == ("a", 0)
    iterator.close()
    assert closed == ["a"]
    assert list(iterator) == [("a", 2), ("b", 1)]  # goes on
    assert closed == ["a", "a", "b"]


class Opened:
    """What somebody else holds as well: that it is dropped closes nothing."""

    def __init__(self):
        self.is_closed = False

    def __iter__(self):
        return iter([(1,), (2,)])

    def close(self):
        self.is_closed = True


def test_what_can_be_closed_is_closed_at_its_end_and_in_the_middle():
    opened = [Opened(), Opened(), Opened()]
    samples = iter(data.ShardStream(opened, lambda shard: shard, shuffle=False))
    assert [next(samples) for _ in range(3)] == [(1,), (2,), (1,)]
    assert [shard.is_closed for shard in opened] == [True, False, False]
    samples.close()
    assert [shard.is_closed for shard in opened] == [True, True, False]


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "fl-data-stream"]


def test_prefetching_keeps_the_order_reads_ahead_and_ends_its_thread():
    read = []
    source = data.IterableStream(lambda: (read.append(i) or (i,) for i in range(50)))
    stream = source.prefetch(4)
    iterator = iter(stream)
    assert next(iterator) == (0,)
    for _ in range(1000):
        if len(read) >= 5:
            break
        threading.Event().wait(0.005)
    assert 5 <= len(read) <= 7
    iterator.close()
    assert threads() == []
    assert numbers(stream) == list(range(50))
    assert threads() == []
    iterator = iter(stream)
    next(iterator)
    del iterator
    assert threads() == []


def test_a_stream_without_end_can_be_prefetched_and_closed():
    iterator = iter(data.IterableStream(lambda: ((i,) for i in count())).prefetch(2))
    assert [next(iterator)[0] for _ in range(5)] == [0, 1, 2, 3, 4]
    iterator.close()
    assert threads() == []


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_arrives_in_its_turn_with_its_traceback_and_is_no_end(prefetch):
    failing = [True]

    def divide(sample):
        return (6 // (sample[0] - 3 * failing[0]),)

    stream = count_to(6).map(divide)
    iterator = iter(stream.prefetch(prefetch) if prefetch else stream)
    assert [next(iterator)[0] for _ in range(3)] == [-2, -3, -6]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            next(iterator)
        assert any(entry.name == "divide" for entry in caught.traceback)
    failing[0] = False
    assert numbers(iterator) == [2, 1, 1]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_stop_iteration_in_a_function_is_no_end(prefetch):
    def stops(sample):
        raise StopIteration

    stream = count_to(6).map(stops)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(stream.prefetch(prefetch) if prefetch else stream)


def test_changing_the_epoch_during_a_pass_is_an_error():
    stream = count_to(3).shuffle(2)
    iterator = iter(stream)
    next(iterator)
    stream.set_epoch(1)
    with pytest.raises(data.IterationError, match="from epoch 0 to 1"):
        next(iterator)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: count_to(3).map(3), "3 is not callable"),
        (lambda: count_to(3).batch(0), "size must be at least 1"),
        (lambda: count_to(3).batch(2, 3), "not callable"),
        (lambda: count_to(3).shuffle(0), "buffer must be at least 1"),
        (lambda: count_to(3).prefetch(0), "depth must be at least 1"),
        (lambda: count_to(3).share(2, 2), "rank 2 does not exist"),
        (lambda: count_to(3).set_epoch(-1), "epoch must be at least 0"),
        (lambda: shards_of(2, rank=0, world_size=3), "2 shards for 3 ranks"),
        (lambda: data.IterableStream([(1,)]), "as every pass begins anew"),
        (lambda: data.ShardStream([1], 3), "not callable"),
        (lambda: list(data.IterableStream(lambda: [1])), "a tuple or a dict"),
        (lambda: list(count_to(3).map(lambda s: s[0])), "a tuple or a dict"),
        (lambda: iter(count_to(3)).load_state({}), r"lacks \['epoch', 'place'\]"),
        (
            lambda: next(iter_at(count_to(3).shuffle(2), [0, None])),
            r"\[shuffle\] \[0, None\] is no place",
        ),
        (lambda: next(iter_at(count_to(3), [0, -1])), "is no place of such a stream"),
    ],
)
def test_what_cannot_be_is_an_error(build, message):
    with pytest.raises(data.FlError, match=message):
        build()


def iter_at(stream, place):
    iterator = iter(stream)
    iterator.load_state({"epoch": 0, "place": place})
    return iterator
