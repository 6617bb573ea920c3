"""`Merge`: the fields of several datasets side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from fl_data.dataset import Dataset, Sample, as_dataset, check_index, check_indices
from fl_data.errors import DataError


class Merge(Dataset):
    """Sample `i` has the fields of sample `i` of every dataset: `Merge(images, labels)`.

    Tuples are put one behind the other; dicts are united, and a name may come from one dataset
    only. With `strict` (the default) all datasets have one length. With `strict=False` the length
    is that of the longest, and the fields of a dataset that is at its end are left out.
    """

    def __init__(self, *datasets: object, strict: bool = True) -> None:
        if not datasets:
            raise DataError("[Merge] give at least one dataset")
        self._sources = tuple(as_dataset(ds) for ds in datasets)
        self._lengths = [len(ds) for ds in self._sources]
        self._length, self._shortest = max(self._lengths), min(self._lengths)
        if strict and self._shortest < self._length:
            raise DataError(
                f"[Merge] the datasets have {self._lengths} samples: give equal lengths, or "
                "strict=False for samples with fewer fields where a dataset has ended"
            )

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return self._sources

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Sample:
        row = check_index(index, self._length, "Merge")
        if row < self._shortest:
            return _united([ds[row] for ds in self._sources])
        pairs = zip(self._sources, self._lengths, strict=True)
        return _united([ds[row] for ds, length in pairs if row < length])

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        rows = check_indices(indices, self._length, "Merge")
        if len(rows) == 0:
            return _united([ds.__getitems__(rows) for ds in self._sources])
        first, last = min(rows), max(rows)
        present = [n for n in self._lengths if first < n]
        if present and min(present) <= last:
            return super().__getitems__(rows)  # says which samples have other fields
        return _united(
            [
                ds.__getitems__(rows)
                for ds, length in zip(self._sources, self._lengths, strict=True)
                if last < length
            ]
        )


def _united(parts: list[Sample]) -> Sample:
    dicts = [part for part in parts if isinstance(part, dict)]
    if not dicts:
        return tuple(chain.from_iterable(parts))
    if len(dicts) < len(parts):
        raise DataError(
            "[Merge] one dataset gives tuples and another dicts: bring them together with "
            "Transform(ds, lambda sample: {...})"
        )
    united: dict[str, object] = {}
    for part in dicts:
        twice = sorted(set(united) & set(part))
        if twice:
            raise DataError(f"[Merge] the fields {twice} come from two datasets: rename them")
        united.update(part)
    return united
