"""Random numbers of one call of a transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import fl_tensor as ft
from fl_data import mix

T = TypeVar("T")


class Draws:
    """Numbers that depend on one draw from `generator`, an `ft.Generator` or a seed.

    One draw of a tensor costs as much as a small transform, so an image takes a single one, at the
    first number that it needs. All numbers are those of `fl_data.mix` with a counter. Without a
    generator the first number raises `DTypeError`.
    """

    def __init__(self, where: str, generator: ft.Generator | int | None) -> None:
        is_seed = isinstance(generator, int) and not isinstance(generator, bool)
        if not (generator is None or is_seed or isinstance(generator, ft.Generator)):
            raise _no_generator(where, generator)
        self._where = where
        self._generator = ft.Generator(generator) if isinstance(generator, int) else generator
        self._seed: int | None = None
        self._count = 0

    def _word(self) -> int:
        if self._seed is None:
            if self._generator is None:
                raise _no_generator(self._where, None)
            self._seed = int(self._generator.integers(0, 1 << 62, backend="numpy").item())
        self._count += 1
        return mix(self._seed, self._count)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """A number on [low, high)."""
        return low + (high - low) * ((self._word() >> 10) / (1 << 53))

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + (self._word() * (high - low + 1) >> 63)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.uniform() < probability

    def normal(self, mean: float, deviation: float) -> float:
        """A normal number, after Box and Muller (1958)."""
        radius = math.sqrt(-2.0 * math.log(1.0 - self.uniform()))
        return mean + deviation * radius * math.cos(2.0 * math.pi * self.uniform())

    def choice(self, values: Sequence[T]) -> T:
        """One of `values`, each equally likely."""
        return values[self.integer(0, len(values) - 1)]


def _no_generator(where: str, given: object) -> ft.DTypeError:
    return ft.DTypeError(
        f"[{where}] generator {given!r}: for what is drawn give an ft.Generator, or a seed"
    )
