"""Resume in the middle of an epoch is exact where processes make the samples, at random moments.

`FL_RESUME_MOMENTS` says how many of each kind; `nox -s resume` takes 200 in all. Without it there
is one, of two kinds, as every process takes a second to begin.
"""

from __future__ import annotations

import os
import random

import pytest

import fl_data as data
import fl_tensor as ft
import prefetched

MOMENTS = int(os.environ.get("FL_RESUME_MOMENTS", "0"))
EPOCHS = 3
LENGTHS = [1 + i * 7919 % 13 for i in range(50)]


def table(folder):
    pytest.importorskip("pyarrow", reason="tables take pyarrow: fl-data[arrow]")
    path = folder / "rows.csv"
    path.write_text("x,kind\n" + "".join(f"{i / 2},{'ab'[i % 2]}\n" for i in range(47)))
    return data.Batch(data.Shuffle(data.Table.read(path), seed=4), 4)


def table_stream(folder):
    pa = pytest.importorskip("pyarrow", reason="tables take pyarrow: fl-data[arrow]")
    import pyarrow.parquet as pq

    rows = pa.table({"x": list(range(103)), "y": [i / 2 for i in range(103)]})
    pq.write_table(rows, folder / "rows.parquet", row_group_size=10)
    return data.TableStream(folder / "rows.parquet", 8, buffer=3, seed=1)


def stream(folder):
    shards = data.ShardStream(range(4), prefetched.shard, seed=2)
    return shards.shuffle(8, seed=1).map(prefetched.one_more).batch(3)


def permutation(folder):
    # More than 2^20 samples: their order is computed.
    return data.Batch(data.Shuffle(data.TensorDataset(ft.arange(1_100_000)), seed=3), 100_000)


def batches(folder):
    rows = data.Concat(prefetched.Numbered(30, 2), prefetched.Numbered(17, 2))
    # One function draws from the sample's own generator, the other from the default one.
    drawn = data.RandomTransform(data.Shuffle(rows, seed=1), prefetched.augment, seed=2)
    return data.Batch(data.Transform(drawn, prefetched.add_noise), 4)


def buckets(folder):
    return data.BucketBatch(prefetched.Runs(LENGTHS), LENGTHS, max_size=40, boundaries=3, seed=5)


def dynamic(folder):
    return data.Shuffle(data.DynamicBatch(prefetched.Runs(LENGTHS), LENGTHS, 40), seed=6)


def listed(samples):
    """Values of everything, in samples that are tuples or dicts."""
    rows = [list(sample.values()) if isinstance(sample, dict) else sample for sample in samples]
    return [[field.tolist() for field in row] for row in rows]


def in_processes(source):
    if isinstance(source, data.Stream):
        return source.prefetch(2, process=True)
    return data.Prefetch(source, processes=1)


SAMPLE = [batches, stream]
KINDS = [*SAMPLE, table, table_stream, permutation, buckets, dynamic] if MOMENTS else SAMPLE


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_resumed_pass_is_the_rest_of_the_epoch(kind, tmp_path):
    draw = random.Random(25)
    ft.seed(11)
    whole = []
    for epoch in range(EPOCHS):
        source = kind(tmp_path)
        source.set_epoch(epoch)
        alone = source if isinstance(source, data.Stream) else data.Prefetch(source, threads=0)
        whole.append(listed(alone))
    assert whole[0] != whole[1] and len(whole[0]) > 5
    for _ in range(MOMENTS or 1):
        epoch = draw.randrange(EPOCHS)
        taken = draw.randrange(1, len(whole[epoch]))
        interrupted = in_processes(kind(tmp_path))
        interrupted.set_epoch(epoch)
        iterator = iter(interrupted)
        assert listed(next(iterator) for _ in range(taken)) == whole[epoch][:taken]
        state = iterator.state()
        iterator.close()
        again = in_processes(kind(tmp_path))
        resumed = iter(again)
        resumed.load_state(state)
        assert listed(resumed) == whole[epoch][taken:]
        if isinstance(again, data.Prefetch):
            again.close()
