"""``fl_data``."""

from __future__ import annotations

from typing import Any

import fl_data as data
import fl_tensor as ft
from bad_values import value
from cases import Target
from targets.making import Ready, target, x


def ds() -> Any:
    return data.TensorDataset(ft.arange(6), ft.arange(6))


def same(sample: Any) -> Any:
    return sample


TARGETS: list[Target] = [
    target("data.TensorDataset", {"0": x}, _0="required_array"),
    target(
        "data.Batch",
        {"ds": ds, "size": 2},
        ds="module",
        size="positive",
        policy="choice",
        rank="count",
        world_size="positive",
        collate="callable",
    ),
    target(
        "data.BucketBatch",
        {"ds": ds, "lengths": [1, 2, 3, 4, 5, 6], "size": 2},
        ds="module",
        lengths="iterable",
        size=[*()],
        boundaries="positive",
        seed="seed",
    ),
    target(
        "data.DynamicBatch",
        {"ds": ds, "lengths": [1, 2, 3, 4, 5, 6], "max_size": 6},
        ds="module",
        lengths="iterable",
        max_size="rate",
    ),
    target(
        "data.CachedTransform",
        {"ds": ds, "fn": Ready(same)},
        ds="module",
        fn="callable",
        folder="output_path",
        max_bytes="count",
    ),
    target(
        "data.Transform", {"0": ds, "1": Ready(same)}, _0="module", _1="callable", fields="mapping"
    ),
    target(
        "data.RandomTransform",
        {"ds": ds, "fn": Ready(lambda s, g: s)},
        ds="module",
        fn="callable",
        seed="seed",
    ),
    target("data.Concat", {"0": ds}, _0="module"),
    target("data.Merge", {"0": ds}, _0="module"),
    target("data.MappedDataset", {"0": lambda: data.MappedArray}, call=lambda a: a),
    target(
        "data.Partition",
        {"ds": ds, "rank": 0, "world_size": 2},
        ds="module",
        rank="count",
        world_size="positive",
    ),
    target(
        "data.Prefetch",
        {"ds": ds, "threads": 1},
        ds="module",
        threads="positive",
        depth="positive",
        processes="count",
    ),
    target(
        "data.Resample",
        {"ds": ds, "draw": Ready(lambda g: [0, 1])},
        ds="module",
        draw="callable",
        seed="seed",
    ),
    target("data.Shuffle", {"ds": ds, "seed": 0}, ds="module", seed="seed"),
    target("data.Span", {"ds": ds, "start": 0}, ds="module", start="count", length="positive"),
    target("data.Subset", {"ds": ds, "indices": [0, 1]}, ds="module", indices="iterable"),
    target(
        "data.Weighted",
        {"ds": ds, "weights": [1.0] * 6},
        ds="module",
        weights="iterable",
        seed="seed",
    ),
    target(
        "data.random_split",
        {"ds": ds, "parts": (0.5, 0.5)},
        ds="module",
        parts="iterable",
        stratify="iterable",
        groups="iterable",
        seed="seed",
    ),
    target("data.k_fold", {"ds": ds, "k": 2}, ds="module", k="positive", seed="seed"),
    target("data.IterableStream", {"make": Ready(lambda: iter([1]))}, make="callable"),
    target(
        "data.ShardStream",
        {"shards": [1], "open": Ready(lambda s: [s])},
        shards="iterable",
        open="callable",
        seed="seed",
    ),
    target("data.MemoryBlob", {"samples": lambda: [(x(),)]}, samples="iterable"),
    target("data.Histogram", {"values": [1.0, 2.0]}, values="iterable", buckets="positive"),
    target("data.as_dataset", {"obj": ds}, obj="module"),
    target("data.check_count", {"value": 1, "name": "n", "where": "here"}, value="count"),
    target("data.decoded_file_name", {"name": "a"}, name="string"),
    target("data.check_index", {"index": 1, "length": 3, "where": "here"}, index="count"),
    target(
        "data.check_indices", {"indices": [1], "length": 3, "where": "here"}, indices="iterable"
    ),
    target("data.collate", {"samples": lambda: [(x(),), (x(),)]}, samples="iterable"),
    target("data.pad_collate", {}, fill="number"),
    target("data.field_collate", {"functions": {0: len}}, functions=[value(3), value({0: 1})]),
    target(
        "data.retry_with_backoff",
        {"fn": Ready(dict), "initial": 0.0},
        fn="callable",
        initial="rate",
        factor="rate",
        max_iters="positive",
    ),
    target("data.pad_to", {"x": x, "shape": (4, 4)}, x="required_array", shape="shape"),
    target("data.join", {"tensors": lambda: [x(), x()]}, tensors="iterable", axis="one_axis"),
    target("data.iterate", {"ds": ds}, ds="module", start="count"),
    target("data.mix", {"seed": 1}, seed="seed"),
    target("data.fingerprint", {"function": Ready(same)}, function="callable"),
    target(
        "data.share",
        {"count": 5, "rank": 0, "world_size": 2},
        count="count",
        rank="count",
        world_size="positive",
    ),
    target(
        "data.partition_by_round_robin",
        {"count": 5, "rank": 0, "world_size": 2, "batch_size": 1},
        count="count",
        rank="count",
        world_size="positive",
        batch_size="positive",
    ),
    target(
        "data.dynamic_partition_by_round_robin",
        {"lengths": [1, 2, 3], "rank": 0, "world_size": 1, "max_size": 3},
        lengths="iterable",
        rank="count",
        world_size="positive",
        max_size="rate",
    ),
]
UNTRIED: dict[str, str] = {
    "data.Blob": "a base class: FileBlob and MemoryBlob are tried",
    "data.Dataset": "a base class",
    "data.EpochDataset": "a base class",
    "data.Stream": "a base class",
    "data.drawn_seeds": "for who saves a position: takes data sets",
    "data.restore_seeds": "for who resumes: takes what drawn_seeds gave",
    "data.StreamIterator": "made by iter()",
    "data.DataIterator": "made by iterate()",
    "data.MappedArray": "made by MappedDataset",
    "data.Table": "takes pyarrow: test_table.py of fl-data has its bad files",
    "data.TableStream": "as Table",
    "data.RawTensor": "a view that a FileBlob hands out",
}
