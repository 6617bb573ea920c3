"""A sample with a random generator seeded by its index, whichever worker loads it."""

from __future__ import annotations

import fl_tensor as ft
from fl_data.dataset import Dataset
from fl_data.errors import DataError
from fl_data.samples import Sample
from fl_data.seeds import mix


def seeded_sample(ds: Dataset, seed: int, index: int) -> Sample:
    """Sample `index`, with a default generator of its own (in the context of this thread)."""
    ft.set_default_generator(ft.Generator(mix(seed, index)))
    try:
        return ds[index]
    except StopIteration as error:  # would end the loop as if all samples had been seen
        raise DataError(f"[prefetch] sample {index} raised StopIteration") from error
