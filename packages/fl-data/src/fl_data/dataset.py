"""The dataset contract: a length, a sample for every index, optionally many samples at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_data.batches.collate import collate, empty_batch
from fl_data.errors import SampleTypeError, add_note
from fl_data.sample_table import FIRST, sample_table
from fl_data.samples import Sample, as_sample, check_count, check_index, check_indices
from fl_tensor.annotations import Checked

if TYPE_CHECKING:
    from fl_data.iterate import DataIterator


class Dataset(Checked, ABC):
    """Samples by number.

    A subclass gives `__len__` and `__getitem__`. It may also give `__getitems__`, when it can make
    a whole batch faster than one sample after another; both must agree:
    `ds.__getitems__(indices)` equals `collate([ds[i] for i in indices])`.

    Samples depend on the index (and, where `set_epoch` says so, on the epoch) and on nothing else:
    that is what makes iteration repeatable, resumable, and free of threads' timing.
    `__getitem__` may be called from several threads at once (see `Prefetch`).
    """

    @property
    def sources(self) -> tuple[Dataset, ...]:
        """The datasets that this one is made of."""
        return ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Sample number `index`; negative numbers count from the end.

        Raises `SampleIndexError` (an `FlError` and an `IndexError`) outside `-len .. len - 1`:
        `check_index(index, len(self), "MyDataset")` does this and gives the plain index.
        """

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        """The samples of `indices`, stacked along a new first axis: one batch.

        An empty list gives fields of length 0, shaped after sample 0. `Subset`, `Span`, `Shuffle`
        and its kind, `Concat`, `Merge` and `Prefetch` hand their indices on, and `Batch` asks so.
        """
        if len(indices) == 0:
            return empty_batch(collate([self[0]]))
        return collate(samples_of(self, indices))

    #: The epoch of the pass that began last (`fl_data.iterate`).
    _passed: int | None = None

    @property
    def epoch(self) -> int:
        """The epoch on which the samples depend; 0 where nothing in this dataset depends on it."""
        return max((source.epoch for source in self.sources), default=0)

    def set_epoch(self, epoch: int) -> None:
        """Give the samples of epoch `epoch` from now on (shuffling, random transforms).

        Reaches every dataset below this one, so call it on the outermost, between two iterations.
        Where it was never called, each pass (`for sample in ds`) is of the epoch after the pass
        before, the first of epoch 0.
        """
        for source in self.sources:
            source.set_epoch(epoch)

    def iterate(self, start: int = 0) -> DataIterator:
        """An iterator over samples `start, start + 1, ...` that knows and restores its position."""
        from fl_data.iterate import DataIterator

        return DataIterator(self, start)

    def __iter__(self) -> DataIterator:
        return self.iterate()

    def __repr__(self) -> str:
        inside = ", ".join(repr(source) for source in self.sources)
        return f"{type(self).__name__}({inside})"

    def _repr_html_(self) -> str:
        def first() -> list[Sample]:
            ft.set_default_generator(ft.Generator(0))  # showing it changes no random numbers
            return [self[i] for i in range(min(len(self), FIRST))]

        try:
            samples = copy_context().run(first)
        except Exception:  # what is wrong with a sample shows when it is used
            samples = []
        return sample_table(type(self).__name__, len(self), samples)


def samples_of(ds: Dataset, indices: Iterable[int]) -> list[Sample]:
    """`[ds[index] for index in indices]`. An error gets a note that says which sample it was."""
    samples: list[Sample] = []
    index: int | None = None
    try:
        for index in indices:
            samples.append(ds[index])
    except Exception as error:
        add_note(error, f"sample {index} of {type(ds).__name__}")
        raise
    return samples


class EpochDataset(Dataset):
    """A dataset whose own samples depend on the epoch, which it remembers: 0 at first."""

    _epoch = 0
    #: Whether `set_epoch` has said which epoch it is: then passes do not go on by themselves.
    _fixed = False

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        self._epoch = check_count(epoch, "epoch", type(self).__name__)
        self._fixed = True
        super().set_epoch(epoch)


class _SequenceDataset(Dataset):
    """Anything with a length and indexing (a list of samples, say), as a `Dataset`."""

    def __init__(self, samples: Any) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        name = type(self._samples).__name__
        return as_sample(self._samples[check_index(index, len(self), name)], name)

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        """By the object's own `__getitems__`, if it has one: that gives a batch, or as in PyTorch a
        list of samples."""
        many = getattr(self._samples, "__getitems__", None)
        if many is None or len(indices) == 0:
            return super().__getitems__(indices)
        name = type(self._samples).__name__
        found = many(list(check_indices(indices, len(self), name)))
        return collate(found) if isinstance(found, list) else as_sample(found, name)

    def __repr__(self) -> str:
        return f"{type(self._samples).__name__} of {len(self)} samples"


def as_dataset(obj: object) -> Dataset:
    """`obj` itself if it is a `Dataset`; a wrapper around anything with `len` and indexing.

    Raises `SampleTypeError` for other objects.
    """
    if isinstance(obj, Dataset):
        return obj
    if isinstance(obj, str | bytes | dict) or not (
        hasattr(obj, "__len__") and hasattr(obj, "__getitem__")
    ):
        raise SampleTypeError(
            f"[dataset] {type(obj).__name__} is not a dataset: give a Dataset, or an object with "
            "__len__ and __getitem__(int) such as a list of tuples of tensors"
        )
    return _SequenceDataset(obj)
