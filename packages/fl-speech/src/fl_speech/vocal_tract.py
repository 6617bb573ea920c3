"""``VocalTractPerturbation``: in training, filterbank features as of a longer or shorter vocal
tract."""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_speech.features.filterbank import hz_to_mel, mel_to_hz
from fl_speech.recipe import Recipe

#: Up to this share of half the sample rate formants are scaled; above, the axis is stretched so
#: that half the rate stays where it is.
FORMANTS = 0.85


class VocalTractPerturbation(nn.Module):
    """In training, scales the frequency axis of each sample of x (B, T, F), outputs of F mel
    filters, by a factor of its own; in evaluation, passes its input on.

    sample_rate      of the recordings, in Hz
    low_hz, high_hz  range of the filters; `high_hz` 0: half the rate

    Logarithms of the factors are uniform in -`reach` .. `reach`. The axis is scaled in Hz, linearly
    up to the formants and piecewise linearly above them (Jaitly and Hinton, "Vocal Tract Length
    Perturbation improves speech recognition", 2013, eq. 1). Values between filters are
    interpolated. The numbers come from the module's own `generator` (split from the default one
    unless given).
    """

    def __init__(
        self,
        reach: float,
        sample_rate: float,
        low_hz: float = 0.0,
        high_hz: float = 0.0,
        *,
        generator: ft.Generator | None = None,
    ) -> None:
        self.reach = reach
        self.nyquist = sample_rate / 2
        self.low, self.high = hz_to_mel(low_hz), hz_to_mel(high_hz or self.nyquist)
        self.generator = generator or ft.default_generator().split(1)[0]

    @classmethod
    def of(cls, recipe: Recipe) -> VocalTractPerturbation:
        """That of a recipe, of its filters."""
        return cls(recipe.vtlp, recipe.sample_rate, recipe.low_hz, recipe.high_hz)

    def forward(self, x: ft.Array) -> ft.Array:
        """The samples, of the same shape."""
        batch, frames, filters = x.shape
        if not self.training or not self.reach or not x.size:
            return x
        draw = self.generator.uniform(
            (batch, 1), -self.reach, self.reach, ft.float32, x.device, x.backend
        )
        places = self._places(ft.exp(draw), filters)
        last = filters - 1
        left = ft.minimum(ft.floor(places).astype(ft.int64), last)
        right = ft.minimum(left + 1, last)
        share = ft.expand_dims((places - left.astype(ft.float32)).astype(x.dtype), 1)
        low, high = (
            ft.take_along_axis(
                x, ft.broadcast_to(ft.expand_dims(i, 1), (batch, frames, filters)), 2
            )
            for i in (left, right)
        )
        return low + share * (high - low)

    def _places(self, factors: Any, filters: int) -> Any:
        """Where in the input each filter's output lies, float32 (B, F), in filters."""
        step = (self.high - self.low) / (filters + 1)
        centres = [mel_to_hz(self.low + step * (i + 1)) for i in range(filters)]
        hertz = ft.asarray([centres], ft.float32, factors.device, factors.backend)
        limit = FORMANTS * self.nyquist * ft.minimum(factors, 1.0)
        slope = (self.nyquist - limit) / (self.nyquist - limit / factors)
        above = self.nyquist - slope * (self.nyquist - hertz)
        scaled = ft.where(hertz * factors <= limit, hertz * factors, above)
        mel = 2595.0 * ft.log10(1.0 + scaled / 700.0)
        return ft.clip((mel - self.low) / step - 1.0, 0.0, filters - 1.0)
