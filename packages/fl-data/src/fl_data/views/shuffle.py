"""`Shuffle`: a seeded permutation, new in every epoch."""

from __future__ import annotations

from collections.abc import Sequence

import fl_tensor as ft
from fl_data.dataset import as_dataset
from fl_data.views.permutation import permutation
from fl_data.views.resample import Resample


class Shuffle(Resample):
    """The samples of `ds` in a random order.

    The order of epoch `n` depends on `seed` and `n` alone: see `Resample`. Every pass over it is an
    epoch: see `Dataset.set_epoch`. A split at random that stays is `random_split`.

    Up to 2^20 samples the order is that of random keys, and kept. For more samples it is computed
    where it is asked for (`fl_data.views.permutation`), and takes no memory.
    """

    def __init__(self, ds: object, seed: int | None = None) -> None:
        source = as_dataset(ds)
        super().__init__(source, self._permute, len(source), seed)

    def _permute(self, generator: ft.Generator) -> Sequence[int]:
        return permutation(len(self), generator)
