"""Subsets of a dataset: chosen indices, a span, the share of one rank."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import fl_tensor as ft
from fl_data.dataset import (
    Dataset,
    Sample,
    as_dataset,
    check_count,
    check_index,
    check_indices,
)
from fl_data.errors import DataError
from fl_data.seeds import agree
from fl_tensor.annotations import checked


class Subset(Dataset):
    """Samples `indices` of `ds`, in that order; an index may come more than once.

    `indices` are integers or a 1-d integer tensor; negative ones count from the end.
    Raises `SampleIndexError` at construction for an index outside `ds`.
    """

    def __init__(self, ds: object, indices: Iterable[int]) -> None:
        self._ds = as_dataset(ds)
        numbers = indices.tolist() if isinstance(indices, ft.Array) else indices
        self._indices = array("q", check_indices(numbers, len(self._ds), "Subset"))

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> Sample:
        return self._ds[self._indices[check_index(index, len(self), "Subset")]]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        rows = check_indices(indices, len(self), "Subset")
        return self._ds.__getitems__([self._indices[row] for row in rows])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ds!r}, {len(self)} samples)"


class Span(Dataset):
    """The `length` samples of `ds` from `start` on; all the rest without a `length`.

    Raises `DataError` when the span does not lie inside `ds`.
    """

    def __init__(self, ds: object, start: int, length: int | None = None) -> None:
        self._ds = as_dataset(ds)
        self._start = check_count(start, "start", "Span")
        rest = len(self._ds) - self._start
        self._length = rest if length is None else check_count(length, "length", "Span")
        if rest < 0 or self._length > rest:
            raise DataError(
                f"[Span] start {start} and length {length} reach beyond {len(self._ds)} samples"
            )

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Sample:
        return self._ds[self._start + check_index(index, self._length, type(self).__name__)]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        rows = check_indices(indices, self._length, type(self).__name__)
        if isinstance(rows, range):
            shifted = range(rows.start + self._start, rows.stop + self._start, rows.step)
            return self._ds.__getitems__(shifted)
        return self._ds.__getitems__([self._start + row for row in rows])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ds!r}, start={self._start}, length={self._length})"


class Partition(Span):
    """The share of `rank` among `world_size`: one contiguous block, sizes equal to within one.

    The blocks of all ranks together are `ds`, in order. This is for work without lockstep
    (evaluation, feature extraction). Ranks that train together share every *batch* instead:
    `Batch(ds, size, rank=rank, world_size=world_size)`.
    """

    def __init__(self, ds: object, rank: int, world_size: int) -> None:
        source = as_dataset(ds)
        check_rank(rank, world_size, "Partition")
        agree(world_size, source)
        start, stop = share(len(source), rank, world_size)
        super().__init__(source, start, stop - start)


@checked
def share(count: int, rank: int, world_size: int) -> tuple[int, int]:
    """`(start, stop)`: the contiguous share of `rank` in `count` things; early ranks get one more.

    The shares of all ranks are disjoint and cover `0 .. count - 1` in order.
    """
    check_count(count, "count", "share")
    check_rank(rank, world_size, "share")
    base, extra = divmod(count, world_size)
    start = rank * base + min(rank, extra)
    return start, start + base + (rank < extra)


def check_rank(rank: int, world_size: int, where: str) -> None:
    """Raises `DataError` unless `0 <= rank < world_size`."""
    check_count(world_size, "world_size", where, least=1)
    if check_count(rank, "rank", where) >= world_size:
        raise DataError(f"[{where}] rank {rank} does not exist among {world_size} ranks")
