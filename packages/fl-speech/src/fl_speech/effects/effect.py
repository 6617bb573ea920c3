"""The base of sound effects, and what they draw."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_data import DataError, Sample
from fl_speech.errors import EffectError
from fl_speech.samples import host_samples, like
from fl_tensor.annotations import Checked

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


class SoundEffect(Checked, ABC):
    """A change of recordings that may depend on chance.

    `effect(samples, generator)` takes float32 or float64 `(channels, n)` or `(n,)`, a tensor or a
    NumPy array, and returns the same kind; `n` may change. Chance comes from `generator`, an
    `ft.Generator` or a seed, and from nowhere else: the same one gives the same result on every
    backend. A recording without samples stays as it is. Raises `EffectError` for NaN and infinity.

    In a dataset, `fl_data.RandomTransform(ds, effect.on(0), seed)` draws by seed, epoch and index.

    A class of your own defines `apply`, and is no part of files of effects.
    """

    @property
    def sample_rate(self) -> int | None:
        """The rate in Hz that the effect was made for; None if it fits every rate."""
        return None

    @abstractmethod
    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        """`x`, `(channels, n)`, changed: another array, or `x` itself, which is not written to."""

    def __call__(self, samples: Any, generator: ft.Generator | int) -> Any:
        import numpy as np

        where = type(self).__name__
        x = host_samples(samples, where)
        if x.ndim not in (1, 2):
            raise ft.ShapeError(
                f"[{where}] samples of shape {x.shape}: expected (channels, n) or (n,)"
            )
        if isinstance(generator, bool) or not isinstance(generator, ft.Generator | int):
            raise ft.DTypeError(
                f"[{where}] generator {generator!r}: give an ft.Generator, or a seed"
            )
        if isinstance(generator, int):
            generator = ft.Generator(generator)
        if not x.size:
            return samples
        if not np.isfinite(x).all():
            raise EffectError(where, "samples", "hold NaN or infinity", "look where they come from")
        rows = x if x.ndim == 2 else x[None]
        changed = self.apply(rows, generator)
        if changed is rows:
            return samples
        return like(samples, changed if x.ndim == 2 else changed[0])

    def on(self, field: int | str = 0) -> Callable[[Sample, ft.Generator], Sample]:
        """A function `(sample, generator) -> sample` for `fl_data.RandomTransform` and
        `Stream.random_map`: the effect on one field of a sample, by number or name."""
        return partial(change_field, self, field)


def change_field(
    effect: Callable[[Any, ft.Generator], Any],
    field: int | str,
    sample: Sample,
    generator: ft.Generator,
) -> Sample:
    """`sample` with `effect(value, generator)` in one field."""
    fields: Any = list(sample) if isinstance(sample, tuple) else dict(sample)
    try:
        audio = fields[field]
    except (KeyError, IndexError, TypeError):
        names = sorted(sample) if isinstance(sample, dict) else list(range(len(sample)))
        raise DataError(f"[SoundEffect] no field {field!r}: the sample has {names}") from None
    fields[field] = effect(audio, generator)
    return tuple(fields) if isinstance(sample, tuple) else fields


def uniform(generator: ft.Generator, low: float, high: float, count: int | None = None) -> Any:
    """A float on [low, high), or a float64 array of `count`."""
    shape = () if count is None else (count,)
    drawn = generator.uniform(shape, low, high, "float64", backend="numpy")
    return drawn.item() if count is None else drawn.numpy()


def integer(generator: ft.Generator, low: int, high: int) -> int:
    """An integer from low to high, both included."""
    return int(generator.integers(low, high + 1, backend="numpy").item())


def happens(generator: ft.Generator, probability: float) -> bool:
    return bool(uniform(generator, 0.0, 1.0) < probability)


def rms(x: np.ndarray) -> float:
    """The root of the mean square of all values."""
    flat = x.reshape(-1).astype("float64")  # squares of large float32 would not fit
    return math.sqrt(flat @ flat / flat.size)


def require(effect: SoundEffect, key: str, is_met: bool, rule: str) -> None:
    """Raises `EffectError` unless a setting is as it must be."""
    if not is_met:
        value = getattr(effect, key)
        raise EffectError(type(effect).__name__, key, f"is {value!r}", f"it must be {rule}")


def require_range(effect: SoundEffect, low: str, high: str, least: float = -math.inf) -> None:
    """Raises `EffectError` unless both settings are finite, at least `least`, and in order."""
    smallest, largest = getattr(effect, low), getattr(effect, high)
    rule = "finite" if least == -math.inf else f"finite and at least {least:g}"
    for key, value in ((low, smallest), (high, largest)):
        require(effect, key, math.isfinite(value) and value >= least, rule)
    require(effect, low, smallest <= largest, f"at most {high}, which is {largest!r}")


def require_probability(effect: Any) -> None:
    require(effect, "proba", 0 <= effect.proba <= 1, "a probability, 0 to 1")
