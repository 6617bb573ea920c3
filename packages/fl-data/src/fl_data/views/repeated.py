"""`Repeated`: every sample several times in a row, for repeated augmentation."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import fl_tensor as ft
from fl_data.dataset import as_dataset
from fl_data.errors import DataError
from fl_data.samples import check_count
from fl_data.seeds import agree
from fl_data.views.permutation import permutation
from fl_data.views.resample import Resample
from fl_data.views.select import check_rank


class Repeated(Resample):
    """The share of `rank` in a random order of `ds` in which every sample comes `repeats` times.

    The order of all ranks is a permutation of `ds`, each sample `repeats` times in a row. Rank `r`
    has the places `r, r + world_size, ...` of it, so the copies of a sample are on different ranks
    as far as there are any. All ranks together have `length` places: by default `len(ds)`, as in
    DeiT, so an epoch has the usual number of steps and holds `1 / repeats` of the samples.
    `length=repeats * len(ds)` holds all of them. Each rank has `length // world_size` places; the
    rest of the places is left out.

    Around it, `RandomTransform` augments each copy in its own way. The order depends on `seed` and
    the epoch alone; with several ranks it is the same for all, and a seed that is not given is 0.
    Give each rank another seed of `RandomTransform`: `mix(seed, rank)`.

    Hoffer et al., "Augment your batch", 2020; Touvron et al., "Training data-efficient image
    transformers", 2021.

    Raises `DataError` for `repeats` below 1, a `length` above `repeats * len(ds)`, and a rank that
    does not exist.
    """

    def __init__(
        self,
        ds: object,
        repeats: int = 3,
        length: int | None = None,
        *,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        source = as_dataset(ds)
        self._repeats = check_count(repeats, "repeats", "Repeated", least=1)
        check_rank(rank, world_size, "Repeated")
        self._rank, self._world_size = rank, world_size
        most = self._repeats * len(source)
        total = len(source) if length is None else check_count(length, "length", "Repeated")
        if total > most:
            raise DataError(
                f"[Repeated] length {total} is more than {len(source)} samples {repeats} times "
                f"each: give at most {most}"
            )
        super().__init__(source, self._share, total // world_size, seed)
        agree(world_size, self)

    def _share(self, generator: ft.Generator) -> Sequence[int]:
        order = permutation(len(self._ds), generator)
        places = range(self._rank, len(self) * self._world_size, self._world_size)
        return array("q", (order[place // self._repeats] for place in places))
