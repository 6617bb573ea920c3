"""Effects one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_speech.effects.effect import SoundEffect
from fl_speech.errors import EffectError

if TYPE_CHECKING:
    import numpy as np


class SoundEffectChain(SoundEffect):
    """Effects in their order; a chain of none changes nothing.

    Each effect draws from a generator of its own, split from the one that is given. Raises
    `EffectError` for effects that were made for different rates.
    """

    def __init__(self, effects: Sequence[SoundEffect] = ()) -> None:
        self.effects = tuple(effects)
        self._rate: int | None = None
        for number, effect in enumerate(self.effects):
            if not isinstance(effect, SoundEffect):
                raise ft.DTypeError(
                    f"[SoundEffectChain] effects[{number}] is a {type(effect).__name__}: "
                    "expected a SoundEffect"
                )
            rate = effect.sample_rate
            if None not in (rate, self._rate) and rate != self._rate:
                raise EffectError(
                    *("SoundEffectChain", "sample_rate"),
                    f"of effects[{number}], {type(effect).__name__}, is {rate} Hz, and of those "
                    f"before it {self._rate} Hz",
                    "make all effects for one rate",
                )
            self._rate = self._rate or rate

    @property
    def sample_rate(self) -> int | None:
        return self._rate

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[SoundEffect]:
        return iter(self.effects)

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        if self.effects:
            for effect, own in zip(self, generator.split(len(self)), strict=True):
                x = effect.apply(x, own)
        return x

    def __repr__(self) -> str:
        return f"SoundEffectChain({list(self.effects)!r})"
