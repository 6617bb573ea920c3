"""`Resample`: indices drawn in every epoch by a user's function."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

import fl_tensor as ft
from fl_data.dataset import Dataset, EpochDataset, as_dataset
from fl_data.errors import DataError, SampleTypeError
from fl_data.per_epoch import PerEpoch
from fl_data.samples import Sample, check_count, check_index, check_indices
from fl_data.seeds import Seed
from fl_data.views.permutation import FeistelPermutation


class Resample(EpochDataset):
    """Samples `draw(generator)` of `ds`: indices, drawn anew in every epoch.

    `draw` may repeat and leave out what it likes, but gives `length` indices each time; without
    `length` it is asked once, now. The generator depends on `seed` and the epoch alone, not on how
    many epochs came before nor on any other random number: `set_epoch(n)` is all that a resume
    needs. Without a `seed` one is drawn now from the default generator; states of iterators hold
    it. For indices that never change there is `Subset`.

    Raises `SampleIndexError` for an index outside `ds`, `DataError` for another number of indices:
    when the epoch's first sample is asked for.
    """

    def __init__(
        self,
        ds: object,
        draw: Callable[[ft.Generator], Iterable[int]],
        length: int | None = None,
        seed: int | None = None,
    ) -> None:
        name = type(self).__name__
        if not callable(draw):
            raise SampleTypeError(
                f"[{name}] {draw!r} is not callable: give draw(generator) -> indices, or use "
                "Subset for indices that never change"
            )
        self._ds = as_dataset(ds)
        self._draw = draw
        self._length = None if length is None else check_count(length, "length", name)
        self._seed = Seed(seed, name)
        self._orders = PerEpoch(self._checked, self._seed)
        if self._length is None:
            self._length = len(self.order)

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def resample(self) -> None:
        """Go to the order of the next epoch."""
        self.set_epoch(self._epoch + 1)

    @property
    def order(self) -> Sequence[int]:
        """What the present epoch drew: place `i` holds sample `order[i]` of `ds`."""
        return self._orders.get(self._epoch)

    def __len__(self) -> int:
        return self._length or 0

    def __getitem__(self, index: int) -> Sample:
        row = check_index(index, len(self), type(self).__name__)
        return self._ds[self._orders.get(self._epoch)[row]]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        order = self.order
        rows = check_indices(indices, len(self), type(self).__name__)
        if isinstance(rows, range) and rows.step == 1:
            return self._ds.__getitems__(order[rows.start : rows.stop])
        if isinstance(order, FeistelPermutation):
            return self._ds.__getitems__(order.take(rows))
        return self._ds.__getitems__([order[row] for row in rows])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ds!r}, seed={self._seed})"

    def _checked(self, generator: ft.Generator) -> Sequence[int]:
        drawn = self._draw(generator)
        if isinstance(drawn, FeistelPermutation):
            return drawn
        numbers = drawn.tolist() if isinstance(drawn, ft.Array) else drawn
        name = type(self).__name__
        order = array("q", check_indices(numbers, len(self._ds), name))
        if self._length not in (None, len(order)):
            raise DataError(
                f"[{name}] draw gave {len(order)} indices, the dataset has {self._length}: "
                "every epoch needs as many"
            )
        return order
