"""Batches of variable-length samples with a bound on the padded size."""

from __future__ import annotations

from collections.abc import Sequence

from fl_data.batches.batch import RowBatches
from fl_data.batches.collate import Collate, pad_collate
from fl_data.batches.round_robin import dynamic_rounds, lengths_of
from fl_data.dataset import check_index
from fl_data.errors import DataError
from fl_data.views.select import check_rank


class DynamicBatch(RowBatches):
    """Neighbours of `ds`, as many as fit: longest length times number of samples <= `max_size`.

    `lengths[i]` is the length of sample `i`: frames, tokens, whatever `max_size` counts. `collate`
    is `pad_collate()` where not given. With `rank` and `world_size`, ranks take such batches in
    turns (`dynamic_partition_by_round_robin`), so `max_size` bounds the batch of each rank, and all
    have equally many; `counts(i)` says how to weight.

    Lengths belong to places, so there is no `Shuffle` inside; `Shuffle(DynamicBatch(...))` is a new
    order of the same batches, `BucketBatch` makes new ones in each epoch. Sorting by length first,
    `Subset(ds, sorted(range(len(ds)), key=lengths.__getitem__))`, pads least.
    """

    def __init__(
        self,
        ds: object,
        lengths: Sequence[float],
        max_size: float,
        collate: Collate | None = None,
        *,
        rank: int = 0,
        world_size: int = 1,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(ds, pad_collate() if collate is None else collate)
        check_rank(rank, world_size, "DynamicBatch")
        numbers = lengths_of(lengths)
        if len(numbers) != len(self._ds):
            raise DataError(f"[DynamicBatch] {len(numbers)} lengths for {len(self._ds)} samples")
        self._rank = rank
        self._rounds = dynamic_rounds(numbers, world_size, max_size, allow_empty)

    def __len__(self) -> int:
        return len(self._rounds)

    def _rows(self, index: int) -> tuple[range, range]:
        turn = self._rounds[check_index(index, len(self), "DynamicBatch")]
        return turn[self._rank], range(turn[0].start, turn[-1].stop)

    def __repr__(self) -> str:
        return f"DynamicBatch({self._ds!r}, {len(self)} batches)"
