"""``Frontend``: what a recogniser sees of a recording: features, and their normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_speech.errors import RecipeError
from fl_speech.features import FeatureExtractor, FeatureParams, local_normalize, normalize
from fl_speech.recipe import Recipe

#: The least deviation of features.
FLOOR = 1e-3


class Frontend:
    """`frontend(samples)`: samples of audio to features (frames, size), as a recipe says.

    mean, deviation  of each feature over the training list, where `normalise` is "global"

    `extractor` is the `FeatureExtractor`; `params`, `frame_count` and `size` are its own.
    """

    def __init__(
        self,
        recipe: Recipe,
        mean: Sequence[float] | None = None,
        deviation: Sequence[float] | None = None,
    ) -> None:
        self.recipe = recipe
        self.params = FeatureParams(
            sample_rate=recipe.sample_rate,
            frame_ms=recipe.frame_ms,
            stride_ms=recipe.stride_ms,
            filters=recipe.filters,
            low_hz=recipe.low_hz,
            high_hz=recipe.high_hz or None,
            mel_floor=recipe.mel_floor,
            cepstra=recipe.cepstra,
            delta_window=recipe.deltas,
            acc_window=recipe.deltas,
        )
        self.extractor = FeatureExtractor(self.params, recipe.features)
        self.size = self.extractor.size
        self.mean, self.deviation = mean, deviation
        if mean is not None and len(mean) != self.size:
            raise RecipeError(
                f"statistics of {len(mean)} features, and a frame has {self.size}: train it again"
            )

    def frame_count(self, samples: int) -> int:
        """How many frames so many samples have."""
        return self.extractor.frame_count(samples)

    def __call__(self, samples: ft.Array) -> Any:
        """Samples (n,) to features (frames, size), normalised."""
        return self.normalised(self.extractor(samples))

    def normalised(self, x: Any) -> Any:
        """Features of one recording (frames, size), as `normalise` says."""
        recipe = self.recipe
        if recipe.normalise in ("utterance", "per_feature"):
            each = recipe.normalise == "per_feature"
            return normalize(x, per_feature=each, threshold=FLOOR)
        if recipe.normalise == "local":
            left, right = recipe.local_left, recipe.local_right
            return local_normalize(x, left, right, threshold=FLOOR)
        if self.mean is not None and self.deviation is not None:
            mean, deviation = (
                ft.asarray(list(values), x.dtype, x.device, x.backend)
                for values in (self.mean, self.deviation)
            )
            return (x - mean) / deviation
        return x

    def __repr__(self) -> str:
        return f"Frontend({self.extractor!r}, {self.recipe.normalise!r})"
