"""Batches of samples, with a share for each rank."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from itertools import accumulate
from typing import Literal, get_args

from fl_data.batches.collate import Collate, empty_batch
from fl_data.dataset import Dataset, EpochDataset, as_dataset, samples_of
from fl_data.errors import DataError, SampleTypeError
from fl_data.iterate import DataIterator, move_to_epoch
from fl_data.prefetching.prefetch import Prefetch
from fl_data.samples import Sample, as_sample, check_count, check_index
from fl_data.seeds import agree
from fl_data.views.select import check_rank, share

RemainderPolicy = Literal["include_last", "skip_last", "divisible_only"]


class IndexBatches(Dataset):
    """Base of datasets whose sample is a batch of rows of `ds`: a subclass says which rows."""

    def __init__(self, ds: object, collate: Collate | None) -> None:
        self._ds = as_dataset(ds)
        if collate is not None and not callable(collate):
            raise SampleTypeError(f"[{type(self).__name__}] collate {collate!r} is not callable")
        self._collate = collate
        #: Around a copy of this one, which iterators may have moved since the last began in
        #: epoch ``_iterated``.
        self._prefetch: Prefetch | None = None
        self._iterated: int | None = None

    @abstractmethod
    def _rows(self, index: int) -> tuple[Sequence[int], Sequence[int]]:
        """The rows of this rank in batch `index`, and those of all ranks."""

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def __getitem__(self, index: int) -> Sample:
        mine, whole = self._rows(index)
        if self._collate is None:
            return self._ds.__getitems__(mine)
        if not mine:
            row = whole[0] if whole else 0
            return empty_batch(as_sample(self._collate([self._ds[row]]), "collate"))
        return as_sample(self._collate(samples_of(self._ds, mine)), "collate")

    def iterate(self, start: int = 0) -> DataIterator:
        """Around a `Prefetch`, the iterator of that `Prefetch` around these batches: its workers
        make whole batches, whichever of the two is inside the other."""
        if not isinstance(self._ds, Prefetch):
            return super().iterate(start)
        if self._prefetch is None:
            inside = copy(self)
            inside._ds = self._ds.sources[0]
            self._prefetch = self._ds.around(inside)
        copied = self._prefetch.sources[0]
        if isinstance(self, EpochDataset) and isinstance(copied, EpochDataset):
            if self.epoch == self._iterated:  # else ``set_epoch`` was called here
                move_to_epoch(self, copied.epoch)
            copied._epoch, copied._fixed = self._epoch, self._fixed
        iterator = self._prefetch.iterate(start)
        if copied.epoch != self.epoch:  # a new pass has begun there
            move_to_epoch(self, copied.epoch)
        self._iterated = self.epoch
        return iterator

    def counts(self, index: int) -> tuple[int, int]:
        """`(here, all)`: how many samples batch `index` has on this rank and on all ranks.

        The mean over the global batch is the sum over ranks of `local mean * here / all`.
        """
        mine, whole = self._rows(index)
        return len(mine), len(whole)


class Batch(IndexBatches):
    """Sample `i` is the batch of samples `i * size .. (i + 1) * size - 1` of `ds`.

    `size` may be a list with the size of every batch (`DynamicBatch` and `BucketBatch` make batches
    by length); what lies behind the last one is then left out.

    Fields are stacked along a new first axis; `collate(samples) -> sample` replaces the stacking
    (`pad_collate()` for samples of unequal size). The last batch, when `len(ds)` is no multiple of
    `size`, is shorter (`policy="include_last"`), left out (`"skip_last"`), or a `DataError` at
    construction (`"divisible_only"`).

    With `rank` and `world_size`, `size` is the size of the *global* batch, and the sample is the
    contiguous share of `rank` in it: ranks 0, 1, ... hold the global batch in order, with nothing
    left out and nothing twice, in the last, shorter batch too. Every rank has the same number of
    batches, so that collectives match. Where sizes do not divide, shares differ by one sample; a
    rank without samples gets fields of length 0. `counts(i)` says how to weight. Where `ds` is
    shuffled and no seed was given, ranks take seed 0: they need the same order.
    """

    def __init__(
        self,
        ds: object,
        size: int | Sequence[int],
        policy: RemainderPolicy = "include_last",
        collate: Collate | None = None,
        *,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(ds, collate)
        check_rank(rank, world_size, "Batch")
        agree(world_size, self)
        self._rank, self._world_size = rank, world_size
        if policy not in get_args(RemainderPolicy):
            raise DataError(
                f"[Batch] unknown policy {policy!r}: use one of {get_args(RemainderPolicy)}"
            )
        self._ends: list[int] | None = None
        if isinstance(size, Sequence) and not isinstance(size, str):
            sizes = [check_count(each, "size", "Batch") for each in size]
            self._size, self._length = max(sizes, default=1), len(sizes)
            self._ends = [0, *accumulate(sizes)]
            if self._ends[-1] > len(self._ds):
                raise DataError(
                    f"[Batch] batches of {self._ends[-1]} samples in all, but there are "
                    f"{len(self._ds)}"
                )
            return
        self._size = check_count(size, "size", "Batch", least=1)
        full, rest = divmod(len(self._ds), self._size)
        if policy == "divisible_only" and rest:
            raise DataError(
                f"[Batch] {len(self._ds)} samples are no multiple of the batch size {self._size}, "
                "and the policy is 'divisible_only': use 'include_last' or 'skip_last'"
            )
        self._length = full + (1 if rest and policy == "include_last" else 0)

    @property
    def size(self) -> int:
        """Samples in a full global batch; in the largest, where sizes differ."""
        return self._size

    def __len__(self) -> int:
        return self._length

    def _rows(self, index: int) -> tuple[range, range]:
        number = check_index(index, self._length, "Batch")
        if self._ends is None:
            first = number * self._size
            whole = range(first, min(first + self._size, len(self._ds)))
        else:
            whole = range(self._ends[number], self._ends[number + 1])
        start, stop = share(len(whole), self._rank, self._world_size)
        return whole[start:stop], whole

    def __repr__(self) -> str:
        place = f", rank={self._rank} of {self._world_size}" if self._world_size > 1 else ""
        return f"Batch({self._ds!r}, size={self._size}{place})"
