"""Reverberation as a series of echoes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_speech.effects.effect import (
    SoundEffect,
    happens,
    require,
    require_probability,
    require_range,
    uniform,
)

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ReverbEcho(SoundEffect):
    """Echoes are added to the samples, each later and softer than the one before, until they are
    60 dB below the first (A. Défossez, G. Synnaeve and Y. Adi, "Real time speech enhancement in
    the waveform domain", 2020).

    proba                            how often the effect is applied
    initial_min, initial_max         amplitude of the first echo, uniform
    rt60_min, rt60_max               seconds until echoes have lost 60 dB, uniform
    first_delay_min, first_delay_max seconds from one echo to the next, uniform
    repeat                           how many such series are added up
    jitter                           each delay, and each attenuation in dB, is multiplied by a
                                     factor that is uniform on [1 - jitter, 1 + jitter)
    sample_rate                      of the samples, in Hz

    An echo is attenuated by `10 ** (-3 * jitter * first_delay / rt60)` against the one before.
    """

    proba: float = 1.0
    initial_min: float = 0.0
    initial_max: float = 0.3
    rt60_min: float = 0.3
    rt60_max: float = 1.3
    first_delay_min: float = 0.01
    first_delay_max: float = 0.03
    repeat: int = 3
    jitter: float = 0.1
    sample_rate: int = 16000

    def __post_init__(self) -> None:
        require_probability(self)
        require_range(self, "initial_min", "initial_max", 0.0)
        require_range(self, "rt60_min", "rt60_max", 1e-3)
        require_range(self, "first_delay_min", "first_delay_max", 1e-4)
        require(self, "repeat", 0 <= self.repeat <= 100, "0 to 100")
        require(self, "jitter", 0 <= self.jitter < 1, "at least 0 and below 1")
        require(self, "sample_rate", self.sample_rate >= 1, "1 Hz or more")

    def apply(self, x: np.ndarray, generator: ft.Generator) -> np.ndarray:
        import numpy as np

        if not happens(generator, self.proba):
            return x
        initial = uniform(generator, self.initial_min, self.initial_max)
        rt60 = uniform(generator, self.rt60_min, self.rt60_max)
        delay = uniform(generator, self.first_delay_min, self.first_delay_max)
        count = x.shape[1]
        response = np.zeros(count)
        for _ in range(self.repeat):
            places, shares = self._echoes(generator, rt60, delay, count)
            response[places] += initial * shares
        size = 1 << (2 * count - 1).bit_length()
        spectrum = np.fft.rfft(x, size) * np.fft.rfft(response, size)
        return x + np.fft.irfft(spectrum, size)[:, :count].astype(x.dtype)

    def _echoes(
        self, generator: ft.Generator, rt60: float, delay: float, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where echoes begin inside `count` samples, and their amplitudes; the first has 1."""
        import numpy as np

        most = math.ceil(rt60 / (delay * (1 - self.jitter))) + 1
        most = min(most, count)  # each comes a sample later at least
        draw = uniform(generator, 1 - self.jitter, 1 + self.jitter, 2 * most)
        delays = 1 + (draw[:most] * (delay * self.sample_rate)).astype(np.int64)
        places = np.cumsum(np.minimum(delays, count))
        lost = np.cumsum(draw[most:]) * (3 * delay / rt60)
        shares = 10.0 ** -np.concatenate([[0.0], lost[:-1]])
        heard = (places < count) & (shares > 1e-3)
        return places[heard], shares[heard]
