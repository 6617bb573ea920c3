"""`Shuffle`: a seeded permutation, new in every epoch."""

from __future__ import annotations

from array import array

import fl_tensor as ft
from fl_data.dataset import as_dataset
from fl_data.views.resample import Resample


class Shuffle(Resample):
    """The samples of `ds` in a random order (Fisher-Yates).

    The order of epoch `n` depends on `seed` and `n` alone: see `Resample`. Every pass over it is an
    epoch: see `Dataset.set_epoch`. A split at random that stays is
    `Subset(ds, Shuffle(ds, seed=1).order[:count])`.
    """

    def __init__(self, ds: object, seed: int | None = None) -> None:
        source = as_dataset(ds)
        super().__init__(source, self._permute, len(source), seed)

    def _permute(self, generator: ft.Generator) -> array[int]:
        return fisher_yates(len(self), generator)


def fisher_yates(n: int, generator: ft.Generator) -> array[int]:
    """A permutation of `0 .. n - 1`; every one is equally likely.

    Draws 62 random bits for each place, so the bias of scaling them to a range is below 2**-30
    for any dataset that fits into memory.
    """
    order = array("q", range(n))
    if n < 2 or not ft.current_backend().has_values:  # where there are only shapes, any will do
        return order
    draws = generator.integers(0, 1 << 31, (2 * (n - 1),)).tolist()
    for place, high, low in zip(range(n - 1, 0, -1), draws[::2], draws[1::2], strict=True):
        other = ((high << 31 | low) * (place + 1)) >> 62
        order[place], order[other] = order[other], order[place]
    return order
