"""Effects on the amplitude alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_speech.effects.effect import SoundEffect, require_range, uniform

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Amplify(SoundEffect):
    """Samples times a ratio that is uniform on [ratio_min, ratio_max)."""

    ratio_min: float = 0.0
    ratio_max: float = 1.0

    def __post_init__(self) -> None:
        require_range(self, "ratio_min", "ratio_max", 0.0)

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        return x * x.dtype.type(uniform(generator, self.ratio_min, self.ratio_max))


@dataclass(frozen=True)
class ClampAmplitude(SoundEffect):
    """Samples limited to -1 .. 1."""

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        return x.clip(-1.0, 1.0)


@dataclass(frozen=True)
class Normalize(SoundEffect):
    """Samples divided by their largest magnitude, so that this becomes 1.

    only_if_too_high  leave recordings alone whose largest magnitude is at most 1
    """

    only_if_too_high: bool = True

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        peak = abs(x).max()
        if peak == 0 or self.only_if_too_high and peak <= 1:
            return x
        return x / peak
