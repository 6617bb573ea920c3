"""Batches of samples of similar length, drawn in every epoch."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import fl_tensor as ft
from fl_data.batches.batch import IndexBatches
from fl_data.batches.collate import Collate, pad_collate
from fl_data.batches.round_robin import lengths_of
from fl_data.dataset import EpochDataset
from fl_data.errors import DataError
from fl_data.per_epoch import PerEpoch
from fl_data.samples import check_count, check_index
from fl_data.seeds import Seed, agree
from fl_data.views.permutation import permutation
from fl_data.views.select import check_rank, share


class BucketBatch(EpochDataset, IndexBatches):
    """Batches of samples of similar length, so that little is padded.

    Bucket `k` holds the samples with `lengths[i] <= boundaries[k]`, a last one the longer ones;
    `boundaries` may be a number of buckets, which are then about equally full. Every epoch has a
    new order inside the buckets and a new order of batches, which depend on `seed` and the epoch
    alone (`shuffle=False`: neither; without a `seed` one is drawn as in `Resample`). The number of
    batches is the same in each epoch.

    Give `size`, the samples of a global batch, or `max_size`, a bound on its longest length times
    its samples: short samples then make large batches. `rank` and `world_size` are as in `Batch`:
    every rank has its share of each global batch. The last batch of a bucket may be shorter;
    `skip_last` leaves it out. `collate` is `pad_collate()` where not given.
    """

    def __init__(
        self,
        ds: object,
        lengths: Sequence[float],
        *,
        size: int | None = None,
        max_size: float | None = None,
        boundaries: int | Sequence[float] = 8,
        seed: int | None = None,
        shuffle: bool = True,
        skip_last: bool = False,
        collate: Collate | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(ds, pad_collate() if collate is None else collate)
        check_rank(rank, world_size, "BucketBatch")
        self._rank, self._world_size = rank, world_size
        numbers = lengths_of(lengths)
        if len(numbers) != len(self._ds):
            raise DataError(f"[BucketBatch] {len(numbers)} lengths for {len(self._ds)} samples")
        if (size is None) == (max_size is None):
            raise DataError("[BucketBatch] give either size or max_size")
        edges = _quantiles(numbers, boundaries) if isinstance(boundaries, int) else list(boundaries)
        if any(a >= b for a, b in zip(edges, edges[1:], strict=False)):
            raise DataError(f"[BucketBatch] boundaries {edges} must increase")
        self._bucket_of = array("q", (bisect_left(edges, length) for length in numbers))
        self._sizes = _batch_sizes(numbers, self._bucket_of, len(edges) + 1, size, max_size)
        self._skip_last = skip_last
        self._seed = Seed(seed if shuffle else 0, "BucketBatch")
        agree(world_size, self)
        self._plans = PerEpoch(self._drawn if shuffle else self._in_order, self._seed)
        self._length = len(self._batches(range(len(numbers))))

    def __len__(self) -> int:
        return self._length

    def _rows(self, index: int) -> tuple[Sequence[int], Sequence[int]]:
        whole = self._plans.get(self._epoch)[check_index(index, self._length, "BucketBatch")]
        start, stop = share(len(whole), self._rank, self._world_size)
        return whole[start:stop], whole

    def _drawn(self, generator: ft.Generator) -> list[array[int]]:
        batches = self._batches(permutation(len(self._bucket_of), generator))
        return [batches[i] for i in permutation(len(batches), generator)]

    def _in_order(self, generator: ft.Generator) -> list[array[int]]:
        return self._batches(range(len(self._bucket_of)))

    def _batches(self, order: Sequence[int]) -> list[array[int]]:
        """The rows of every global batch, when samples come in this order."""
        buckets = [array("q") for _ in self._sizes]
        for row in order:
            buckets[self._bucket_of[row]].append(row)
        return [
            rows[start : start + size]
            for rows, size in zip(buckets, self._sizes, strict=True)
            for start in range(0, len(rows), size)
            if not self._skip_last or start + size <= len(rows)
        ]

    def __repr__(self) -> str:
        return f"BucketBatch({self._ds!r}, {self._length} batches, seed={self._seed})"


def _quantiles(lengths: Sequence[float], buckets: int) -> list[float]:
    """Boundaries between `buckets` parts with about as many samples in each."""
    count = check_count(buckets, "boundaries", "BucketBatch", least=1)
    ordered = sorted(lengths)
    if not ordered:
        return []
    return sorted(
        {ordered[max(0, len(ordered) * k // count - 1)] for k in range(1, count)} - {ordered[-1]}
    )


def _batch_sizes(
    lengths: Sequence[float],
    bucket_of: Sequence[int],
    buckets: int,
    size: int | None,
    max_size: float | None,
) -> list[int]:
    if size is not None:
        return [check_count(size, "size", "BucketBatch", least=1)] * buckets
    assert max_size is not None
    longest = [0.0] * buckets
    for length, bucket in zip(lengths, bucket_of, strict=True):
        longest[bucket] = max(longest[bucket], length)
    if max(longest) > max_size:
        raise DataError(
            f"[BucketBatch] the longest sample has length {max(longest)}, more than max_size "
            f"{max_size}: raise max_size, or leave such samples out with Subset"
        )
    # A bucket of samples without length has no bound: one batch holds them all.
    return [int(max_size // most) if most else max(1, len(lengths)) for most in longest]
