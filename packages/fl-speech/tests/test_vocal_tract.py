"""Features of training as of longer or shorter vocal tracts."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.errors import RecipeError
from fl_speech.features import FeatureParams, log_mel
from fl_speech.recipe import Recipe
from fl_speech.vocal_tract import VocalTractPerturbation

RATE = 8000


def features(hertz: float) -> np.ndarray:
    """Log-mel features of a sine, (T, 40)."""
    sine = np.sin(2 * np.pi * hertz * np.arange(RATE // 2) / RATE).astype(np.float32)
    return np.asarray(log_mel((ft.asarray(sine), RATE), FeatureParams(RATE, filters=40)))


def peaks(x: object) -> np.ndarray:
    """The loudest filter of each sample."""
    return np.asarray(x).mean(1).argmax(-1)


def test_formants_move_within_the_reach() -> None:
    hertz, reach, count = 1500.0, 0.2, 64
    x = np.repeat(features(hertz)[None], count, 0)
    y = VocalTractPerturbation(reach, RATE, generator=ft.Generator(1))(ft.asarray(x))
    lowest, highest = (int(features(hertz * np.exp(e)).mean(0).argmax()) for e in (-reach, reach))
    found = peaks(y)
    assert found.min() < peaks(x)[0] < found.max(), "up and down"
    assert lowest - 1 <= found.min() <= lowest + 2 and highest - 2 <= found.max() <= highest + 1
    assert len(set(found.tolist())) > 3, "samples have factors of their own"


def test_a_factor_scales_frequencies_in_hertz() -> None:
    # The output at f is the input at f times the factor: a peak at 1000 Hz moves to 1000 / factor.
    layer = VocalTractPerturbation(0.3, RATE, generator=ft.Generator(2))
    factor = float(ft.exp(ft.Generator(2).uniform((1, 1), -0.3, 0.3, ft.float32)).item())
    y = layer(ft.asarray(features(1000.0)[None]))
    moved = features(1000.0 / factor).mean(0).argmax()
    assert abs(int(peaks(y)[0]) - int(moved)) <= 1


def test_both_ends_of_the_axis_stay() -> None:
    ramp = np.broadcast_to(np.arange(40, dtype=np.float32), (8, 2, 40)).copy()
    y = np.asarray(VocalTractPerturbation(0.4, RATE, generator=ft.Generator(3))(ft.asarray(ramp)))
    assert np.all(np.diff(y, axis=-1) >= 0), "the order of the filters is kept"
    assert np.abs(y[..., 0] - 0).max() < 1 and np.abs(y[..., -1] - 39).max() < 2
    assert np.abs(y - ramp).max() > 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_depend_on_the_generator_and_evaluation_changes_nothing(dtype: str) -> None:
    x = ft.asarray(features(700.0)[None], ft.dtype(dtype))
    first, again, other = (
        VocalTractPerturbation(0.2, RATE, generator=ft.Generator(seed))(x) for seed in (1, 1, 2)
    )
    assert first.dtype is x.dtype and np.array_equal(np.asarray(first), np.asarray(again))
    assert not np.array_equal(np.asarray(first), np.asarray(other))
    layer = VocalTractPerturbation(0.2, RATE)
    with nn.evaluating(layer):
        assert layer(x) is x
    assert VocalTractPerturbation(0.2, RATE)(x[:, :0]).shape == (1, 0, 40)


@pytest.mark.parametrize("settings", [{"features": "mfcc"}, {"deltas": 2}])
def test_a_recipe_needs_the_outputs_of_mel_filters(settings: dict[str, object]) -> None:
    with pytest.raises(RecipeError, match="vtlp.*needs features mfsc without deltas"):
        Recipe(vtlp=0.1, **settings)
