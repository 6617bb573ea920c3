"""Datasets one after another."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import fl_tensor as ft
from fl_data.arrays.tensors import index_for
from fl_data.dataset import Dataset, as_dataset
from fl_data.errors import DataError
from fl_data.samples import Sample, check_index, check_indices


class Concat(Dataset):
    """The samples of `datasets[0]`, then those of `datasets[1]`, and so on.

    The datasets should give the same fields, or batches across a border cannot be made.
    """

    def __init__(self, *datasets: object) -> None:
        if not datasets:
            raise DataError("[Concat] give at least one dataset")
        self._sources = tuple(as_dataset(ds) for ds in datasets)
        self._starts = [0, *accumulate(len(ds) for ds in self._sources)]

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return self._sources

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Sample:
        part, row = self._find(check_index(index, len(self), "Concat"))
        return self._sources[part][row]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        rows = check_indices(indices, len(self), "Concat")
        if len(rows) == 0:
            nonempty = (ds for ds in self._sources if len(ds))
            return next(nonempty, self._sources[0]).__getitems__([])
        # Each dataset makes its part of the batch at once; one gather puts the rows in order.
        requested: dict[int, list[int]] = {}
        places: dict[int, list[int]] = {}
        for place, index in enumerate(rows):
            part, row = self._find(index)
            requested.setdefault(part, []).append(row)
            places.setdefault(part, []).append(place)
        parts = [self._sources[part].__getitems__(numbers) for part, numbers in requested.items()]
        if len(parts) == 1:
            return parts[0]
        order = [place for part in requested for place in places[part]]
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return _join(parts, None if inverse == order else array("q", inverse))

    def _find(self, index: int) -> tuple[int, int]:
        """Which dataset holds `index`, and where; empty datasets are stepped over."""
        part = bisect_right(self._starts, index) - 1
        return part, index - self._starts[part]


def _join(parts: list[Sample], order: array[int] | None) -> Sample:
    """The rows of all parts, one after another, then picked in `order`."""
    first = parts[0]
    keys = [sorted(p) if isinstance(p, dict) else list(range(len(p))) for p in parts]
    if any(names != keys[0] for names in keys):
        raise DataError(f"[Concat] the datasets have different fields: {keys}")

    def column(field: int | str) -> ft.Array:
        values = [part[field] for part in parts]  # type: ignore[index]
        kinds = {f"{value.shape[1:]} {value.dtype}" for value in values}
        if len(kinds) > 1:
            raise DataError(
                f"[Concat] field {field!r} differs between the datasets: "
                f"{' and '.join(sorted(kinds))} in one batch: make samples equal with Transform"
            )
        joined = ft.concatenate(values, axis=0)
        return joined if order is None else ft.gather(joined, index_for(order, joined))

    if isinstance(first, dict):
        return {name: column(name) for name in first}
    return tuple(column(field) for field in range(len(first)))
