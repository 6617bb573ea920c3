"""A seeded order of samples, new in every epoch."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from threading import Lock

import fl_tensor as ft
from fl_data.dataset import (
    Dataset,
    Sample,
    as_dataset,
    check_count,
    check_index,
    check_indices,
)
from fl_data.seeds import mix


class Shuffle(Dataset):
    """The samples of `ds` in a random order (Fisher-Yates).

    The order of epoch `n` depends on `seed` and `n` alone, not on how many epochs came before nor
    on any other random number drawn: `set_epoch(n)` is all that a resume needs.
    """

    def __init__(self, ds: object, seed: int = 0) -> None:
        self._ds = as_dataset(ds)
        self._seed = check_count(seed, "seed", "Shuffle")
        self._epoch = 0
        self._drawn: tuple[int, array[int]] | None = None
        self._lock = Lock()

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        self._epoch = check_count(epoch, "epoch", "Shuffle")
        super().set_epoch(epoch)

    def resample(self) -> None:
        """Go to the order of the next epoch."""
        self.set_epoch(self._epoch + 1)

    @property
    def order(self) -> Sequence[int]:
        """The permutation of the present epoch: place `i` holds sample `order[i]` of `ds`."""
        with self._lock:  # prefetching threads ask at once: draw it once
            if self._drawn is None or self._drawn[0] != self._epoch:
                generator = ft.Generator(mix(self._seed, self._epoch))
                self._drawn = (self._epoch, fisher_yates(len(self._ds), generator))
            return self._drawn[1]

    def __len__(self) -> int:
        return len(self._ds)

    def __getitem__(self, index: int) -> Sample:
        return self._ds[self.order[check_index(index, len(self), "Shuffle")]]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        order = self.order
        return self._ds.__getitems__(
            [order[row] for row in check_indices(indices, len(self), "Shuffle")]
        )

    def __repr__(self) -> str:
        return f"Shuffle({self._ds!r}, seed={self._seed})"


def fisher_yates(n: int, generator: ft.Generator) -> array[int]:
    """A permutation of `0 .. n - 1`; every one is equally likely.

    Draws 62 random bits for each place, so the bias of scaling them to a range is below 2**-30
    for any dataset that fits into memory.
    """
    order = array("q", range(n))
    if (
        n < 2 or not ft.current_backend().has_values
    ):  # where there are only shapes, any order will do
        return order
    draws = generator.integers(0, 1 << 31, (2 * (n - 1),)).tolist()
    for place, high, low in zip(range(n - 1, 0, -1), draws[::2], draws[1::2], strict=True):
        other = ((high << 31 | low) * (place + 1)) >> 62
        order[place], order[other] = order[other], order[place]
    return order
