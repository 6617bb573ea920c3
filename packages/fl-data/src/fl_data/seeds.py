"""Independent seeds out of a seed and counters: nothing depends on what was drawn before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_data.errors import DataError

if TYPE_CHECKING:
    from fl_data.dataset import Dataset, Sample

_MASK = (1 << 64) - 1


def mix(seed: int, *counters: int) -> int:
    """A 63-bit seed that depends on `seed` and every counter (SplitMix64 after each)."""
    state = seed & _MASK
    for counter in counters:
        z = (state + 0x9E3779B97F4A7C15 * (counter + 1)) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        state = z ^ (z >> 31)
    return state >> 1


def seeded_sample(ds: Dataset, seed: int, index: int) -> Sample:
    """Sample `index`, with a default generator of its own (in the context of this thread)."""
    ft.set_default_generator(ft.Generator(mix(seed, index)))
    try:
        return ds[index]
    except StopIteration as error:  # would end the loop as if all samples had been seen
        raise DataError(f"[prefetch] sample {index} raised StopIteration") from error
