"""Iteration with a position that can be saved and restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fl_data.dataset import Dataset, EpochDataset, as_dataset, check_count
from fl_data.errors import DataError, IterationError
from fl_data.seeds import drawn_seeds, restore_seeds

if TYPE_CHECKING:
    from fl_data.dataset import Sample


class DataIterator(Iterator["Sample"]):
    """Samples of `ds` in order, from `start` on.

    `state()` is a small dict of integers for a checkpoint; `load_state` of an iterator over an
    equally built dataset goes on with exactly the sample that would have come next.
    A sample that cannot be made raises and counts as passed: `next` goes on with the one after it.
    """

    def __init__(self, ds: Dataset, start: int = 0) -> None:
        if start == 0:
            begin_pass(ds)
        self._ds = ds
        self._length = len(ds)
        self._epoch = ds.epoch
        self._clocks = tuple(_clocks(ds))
        self._position = _inside(start, self._length)

    @property
    def position(self) -> int:
        """The index of the sample that comes next."""
        return self._position

    def __length_hint__(self) -> int:
        return self._length - self._position

    def __next__(self) -> Sample:
        if self._clocks and max([ds.epoch for ds in self._clocks]) != self._epoch:
            raise IterationError(
                f"[iterate] the dataset went from epoch {self._epoch} to {self._ds.epoch} while it "
                "was iterated: call set_epoch before the iteration begins, and begin no other "
                "(after set_epoch several can go on side by side)"
            )
        self._ds._passed = self._epoch
        if self._position >= self._length:
            self.close()
            raise StopIteration
        try:
            sample = self._fetch(self._position)
        except IterationError:  # the iterator's own trouble: the sample is still to come
            raise
        except Exception:
            self._position += 1
            raise
        self._position += 1
        return sample

    def _fetch(self, index: int) -> Sample:
        try:
            return self._ds[index]
        except StopIteration as error:  # would end the loop as if all samples had been seen
            raise DataError(f"[iterate] sample {index} raised StopIteration") from error

    def state(self) -> dict[str, Any]:
        """`{"epoch", "position", "length"}`: samples already handed out, not those read ahead.
        `"seeds"` are there where some were drawn and not given."""
        state: dict[str, Any] = {"epoch": self._epoch, "position": self._position}
        state["length"] = self._length
        if seeds := drawn_seeds(self._ds):
            state["seeds"] = seeds
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Set the dataset's epoch and this position to those of `state`.

        Raises `DataError` when `state` is malformed or belongs to a dataset of another length.
        """
        missing = {"epoch", "position", "length"} - set(state)
        if missing:
            raise DataError(f"[load_state] the state lacks {sorted(missing)}")
        length = len(self._ds)
        if state["length"] != length:
            raise DataError(
                f"[load_state] the state belongs to a dataset of {state['length']} samples, this "
                f"one has {length}: build it with the same files, batch size and policy"
            )
        epoch = check_count(state["epoch"], "epoch", "load_state")
        position = _inside(state["position"], length)
        restore_seeds(state.get("seeds"), self._ds)
        self.close()
        go_to(self._ds, epoch)
        # A dataset in which nothing depends on the epoch keeps saying 0.
        self._epoch = self._ds.epoch
        self._position, self._length = position, length

    def close(self) -> None:
        """Let go of threads and samples read ahead; iteration may go on later."""

    def __enter__(self) -> DataIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def iterate(ds: object, start: int = 0) -> DataIterator:
    """An iterator over samples `start, start + 1, ...` of `ds`.

    Raises `DataError` unless `0 <= start <= len(ds)`.
    """
    return as_dataset(ds).iterate(start)


def begin_pass(ds: Dataset) -> None:
    """Go to the next epoch where a pass over this one has begun already, unless `set_epoch` has
    said which epoch it is."""
    if ds._passed == ds.epoch:
        own = list(_epoch_datasets(ds))
        if own and not any(each._fixed for each in own):
            go_to(ds, ds.epoch + 1)


def go_to(ds: Dataset, epoch: int) -> None:
    """`ds.set_epoch(epoch)`, after which passes go on by themselves if they did before."""
    before = [(each, each._fixed) for each in _epoch_datasets(ds)]
    ds.set_epoch(epoch)
    for each, fixed in before:
        each._fixed = fixed


def _epoch_datasets(ds: Dataset) -> Iterator[EpochDataset]:
    if isinstance(ds, EpochDataset):
        yield ds
    for source in ds.sources:
        yield from _epoch_datasets(source)


def _clocks(ds: Dataset) -> Iterator[Dataset]:
    """The datasets in `ds` that say which epoch it is: all others, asked for each sample, cost."""
    if type(ds).epoch is not Dataset.epoch:
        yield ds
    else:
        for source in ds.sources:
            yield from _clocks(source)


def _inside(position: int, length: int) -> int:
    if check_count(position, "the start position", "iterate") > length:
        raise DataError(f"[iterate] the start position {position} lies beyond the {length} samples")
    return position
