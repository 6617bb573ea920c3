"""Features of training that are slower or faster."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.tempo import Tempo


def batch(own: list[int], size: int = 3) -> np.ndarray:
    """Ramps in time, of another slope for each feature, and rubbish behind the ends."""
    x = np.full((len(own), max(own) + 4, size), 1e6, np.float32)
    for row, n in enumerate(own):
        x[row, :n] = np.arange(n)[:, None] * (1 + np.arange(size))
    return x


def test_each_sample_has_a_tempo_of_its_own() -> None:
    own = [1, 2, 9, 40, 41, 100]
    x = batch(own)
    y, lengths = Tempo(0.4, generator=ft.Generator(3))(ft.asarray(x), ft.asarray(own))
    counts, values = np.asarray(lengths).tolist(), np.asarray(y)
    assert values.shape[1] % 32 == 0 and counts[0] == 1 and counts[1] >= 2
    for n, m in zip(own[2:], counts[2:], strict=True):
        assert n * 0.67 - 1 <= m <= n * 1.5 + 1
    assert len({m / n for n, m in zip(own[2:], counts[2:], strict=True)}) > 2
    for row, (n, m) in enumerate(zip(own, counts, strict=True)):
        ramp = np.linspace(0, n - 1, m) if m > 1 else np.zeros(1)
        np.testing.assert_allclose(values[row, :m, 1], 2 * ramp, atol=1e-3)
        assert not values[row, m:].any()


def test_without_lengths_and_in_evaluation() -> None:
    x = ft.asarray(batch([30, 30])[:, :30])
    tempo = Tempo(0.2, generator=ft.Generator(1))
    y, lengths = tempo(x)
    assert y.shape[1] >= max(np.asarray(lengths)) and lengths.shape == (2,)
    again, _ = Tempo(0.2, generator=ft.Generator(1))(x)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(again))
    with nn.evaluating(tempo):
        same, none = tempo(x)
    assert same is x and none is None


@pytest.mark.parametrize("frames", [0, 1])
def test_hardly_any_frames(frames: int) -> None:
    y, _ = Tempo(0.5)(ft.zeros((2, frames, 4)), ft.asarray([frames, frames]))
    assert not np.asarray(y).any()
