"""A value that is drawn once in each epoch, at its first use."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

import fl_tensor as ft
from fl_data.seeds import Seed, mix
from fl_memory import free_after_fork

T = TypeVar("T")


class PerEpoch(Generic[T]):
    """`get(epoch)` is `draw(generator)`, with a generator that depends on `seed` and `epoch` alone.

    The last value is kept. Threads that ask at once wait for one draw. A copy in another process
    (pickled) draws for itself.
    """

    def __init__(self, draw: Callable[[ft.Generator], T], seed: Seed) -> None:
        self._draw, self._seed = draw, seed
        self._lock = free_after_fork(RLock())  # what is drawn is the user's
        self._drawn: tuple[tuple[int, int], T] | None = None

    def get(self, epoch: int) -> T:
        key = (self._seed.value, epoch)
        drawn = self._drawn
        if drawn is None or drawn[0] != key:
            with self._lock:
                drawn = self._drawn
                if drawn is None or drawn[0] != key:
                    drawn = (key, self._draw(ft.Generator(mix(*key))))
                    self._drawn = drawn
        return drawn[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return PerEpoch, (self._draw, self._seed)
