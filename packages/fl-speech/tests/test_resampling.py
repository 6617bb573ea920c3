"""Resampling: tones keep their place, what the new rate cannot hold disappears."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import fl_speech as speech
import fl_tensor as ft

RATES = [(8000, 16000), (16000, 8000), (44100, 16000), (16000, 44100), (48000, 44100), (8000, 8001)]
METHODS = ["polyphase", "soxr"]


def tones(rate: int, seconds: float, limit: float) -> np.ndarray:
    """Tones below `limit` Hz, under a slow window so that the ends are silent."""
    t = np.arange(round(rate * seconds)) / rate
    x = sum(np.sin(2 * np.pi * share * limit * t + share) for share in (0.1, 0.37, 0.6, 0.85))
    return 0.2 * x * np.sin(np.pi * t / seconds) ** 2


@pytest.fixture(params=METHODS)
def method(request):
    if request.param == "soxr":
        pytest.importorskip("soxr")
    return request.param


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
def test_tones_of_both_bands_are_kept(rate, new_rate, method):
    limit = min(rate, new_rate) / 2
    y = speech.resample(tones(rate, 1.0, limit), rate, new_rate, method=method)
    np.testing.assert_allclose(y, tones(new_rate, 1.0, limit), atol=2e-4)


@pytest.mark.parametrize(("rate", "new_rate"), [(16000, 8000), (44100, 16000), (48000, 44100)])
def test_what_the_new_rate_cannot_hold_is_removed(rate, new_rate, method):
    t = np.arange(rate) / rate
    for hz in np.linspace(new_rate / 2 * 1.001, rate / 2, 5)[:-1]:
        x = np.sin(2 * np.pi * hz * t) * np.sin(np.pi * t) ** 2
        y = speech.resample(x, rate, new_rate, method=method)
        assert np.abs(y).max() < 1e-4  # -80 dB


def test_polyphase_stops_100_db():
    t = np.arange(16000) / 16000
    x = np.sin(2 * np.pi * 5000 * t) * np.sin(np.pi * t) ** 2
    assert np.abs(speech.resample(x, 16000, 8000)).max() < 1e-5


def test_both_ways_of_polyphase_are_one_filter(monkeypatch):
    """Few phases are one matrix; of many, the weights are computed for each sample."""
    x = np.random.default_rng(0).standard_normal((2, 3000))
    for rate, new_rate in [(3, 2), (2, 3), (441, 160), (160, 441), (1, 7), (7, 1)]:
        matrix = speech.resample(x, rate, new_rate)
        with monkeypatch.context() as patch:
            patch.setattr("fl_speech.resampling._LARGEST_MATRIX", 0)
            patch.setattr("fl_speech.resampling._CHUNK", 50_000)
            single = speech.resample(x, rate, new_rate)
        np.testing.assert_allclose(matrix, single, atol=1e-12)


def test_rates_are_divided_by_their_common_divisor():
    x = np.random.default_rng(0).standard_normal(500)
    a, b = speech.resample(x, 44100, 16000), speech.resample(x, 441, 160)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
def test_lengths(count, method):
    for rate, new_rate in [*RATES, (16000, 1), (1, 16)]:
        y = speech.resample(np.ones((3, count), np.float32), rate, new_rate, method=method)
        assert y.shape == (3, math.ceil(count * new_rate / rate))
        assert y.dtype == np.float32


def test_axes_dtypes_and_kinds_are_kept(tone, method):
    x = np.stack([tone(800, seed=k) for k in range(6)]).reshape(2, 3, 800)
    y = speech.resample(ft.asarray(x), 16000, 8000, method=method)
    assert isinstance(y, ft.Tensor) and (y.shape, y.dtype) == ((2, 3, 400), ft.float64)
    one = speech.resample(x[1, 2], 16000, 8000, method=method)
    assert type(one) is np.ndarray
    np.testing.assert_allclose(one, y.numpy()[1, 2], atol=1e-12)
    z = speech.resample(x.astype(np.float32), 16000, 8000, method=method)
    np.testing.assert_allclose(z, y.numpy(), atol=1e-5)
    assert speech.resample(x, 8000, 8000, method=method) is x


def test_bad_rates_and_methods(monkeypatch):
    x = np.zeros(10)
    for rate, new_rate, name in [(0, 8000, "rate 0"), (8000, -1, "new_rate -1")]:
        with pytest.raises(ft.ArgumentError, match=rf"\[resample\] {name}: give 1 Hz or more"):
            speech.resample(x, rate, new_rate)
    with pytest.raises(ft.DTypeError, match="new_rate 8000.5: expected an int"):
        speech.resample(x, 16000, 8000.5)
    with pytest.raises(ft.ArgumentError, match="10 samples from 1 to 1000000000 Hz would be"):
        speech.resample(x, 1, 10**9)
    with pytest.raises(ft.ArgumentError, match="method 'linear': give 'polyphase' or 'soxr'"):
        speech.resample(x, 1, 2, method="linear")
    with pytest.raises(ft.DTypeError, match="samples of int16: give float32, float64"):
        speech.resample(x.astype(np.int16), 1, 2)
    with pytest.raises(ft.ShapeError, match=r"expected \(..., samples\)"):
        speech.resample(np.float32(1), 1, 2)
    monkeypatch.setitem(sys.modules, "soxr", None)
    with pytest.raises(ft.MissingError, match=r"install fl-speech\[soxr\]"):
        speech.resample(x, 1, 2, method="soxr")
