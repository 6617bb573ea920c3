"""Functions applied to samples on access."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fl_tensor as ft
from fl_data.dataset import Dataset, EpochDataset, as_dataset
from fl_data.errors import DataError, SampleTypeError
from fl_data.samples import Sample, as_sample, check_index, check_indices
from fl_data.seeds import Seed, mix


class Transform(Dataset):
    """Samples of `ds` after functions.

    * `Transform(ds, fn)`: `fn(sample) -> sample`, whole samples.
    * `Transform(ds, f0, f1, ...)`: `f0` on field 0, `f1` on field 1, ...; `None` leaves a field as
      it is, as do missing functions at the end.
    * `Transform(ds, fields={"image": f, 2: g})`: functions by field name or number.

    Functions see single samples; put `Transform` around `Batch` for functions on batches. They may
    run in several threads at once. For random functions use `RandomTransform`.
    """

    def __init__(
        self,
        ds: object,
        *functions: Callable[[Any], Any] | None,
        fields: Mapping[Any, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._ds = as_dataset(ds)
        if bool(functions) == (fields is not None):
            raise DataError(
                "[Transform] give one function on samples, or functions by field, "
                "in either the positional or the fields= form"
            )
        for function in (*functions, *(fields or {}).values()):
            if function is not None and not callable(function):
                raise SampleTypeError(f"[Transform] {function!r} is not callable")
        self._whole = functions[0] if len(functions) == 1 else None
        by_position = {i: fn for i, fn in enumerate(functions) if fn is not None}
        self._fields: dict[Any, Callable[[Any], Any]] = dict(fields or by_position)

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def __len__(self) -> int:
        return len(self._ds)

    def __getitem__(self, index: int) -> Sample:
        sample = self._ds[index]  # which checks the index: asking for the length takes long
        if self._whole is not None:
            return as_sample(self._whole(sample), "Transform")
        return _map_fields(sample, self._fields)


class RandomTransform(EpochDataset):
    """Samples of `ds` after `fn(sample, generator) -> sample`, for augmentation.

    Every call gets its own `ft.Generator`, which depends on `seed`, the epoch and the index alone:
    a sample is augmented anew in each epoch (`set_epoch`), and the result is the same with any
    number of prefetching threads and after a resume. Without a `seed` one is drawn as in
    `Resample`.

    A function with a method `batch(batch, generators) -> batch` makes a whole `Batch` at once, of
    the batch that `ds` gives: what its samples, each with its generator, give one by one.
    """

    def __init__(
        self, ds: object, fn: Callable[[Sample, ft.Generator], Sample], seed: int | None = None
    ) -> None:
        self._ds = as_dataset(ds)
        if not callable(fn):
            raise SampleTypeError(f"[RandomTransform] {fn!r} is not callable")
        self._fn = fn
        self._seed = Seed(seed, "RandomTransform")

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def __len__(self) -> int:
        return len(self._ds)

    def __getitem__(self, index: int) -> Sample:
        number = index  # the dataset checks it: asking for its length takes long
        if type(index) is not int or index < 0:
            number = check_index(index, len(self), "RandomTransform")
        generator = ft.Generator(mix(self._seed.value, self._epoch, number))
        return as_sample(self._fn(self._ds[number], generator), "RandomTransform")

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        many = getattr(self._fn, "batch", None)
        if many is None or not len(indices):
            return super().__getitems__(indices)
        rows = check_indices(indices, len(self), "RandomTransform")
        seed, epoch = self._seed.value, self._epoch
        generators = [ft.Generator(mix(seed, epoch, number)) for number in rows]
        return as_sample(many(self._ds.__getitems__(rows), generators), "RandomTransform")


def _map_fields(sample: Sample, functions: Mapping[Any, Callable[[Any], Any]]) -> Sample:
    found: dict[Any, Any] = dict(sample if isinstance(sample, dict) else enumerate(sample))
    for name, function in functions.items():
        if name not in found:
            unknown = sorted(set(functions) - set(found), key=str)
            raise DataError(
                f"[Transform] there are functions for the fields {unknown}, "
                f"but the sample has {sorted(found, key=str)}"
            )
        found[name] = function(found[name])
    return found if isinstance(sample, dict) else tuple(found.values())
