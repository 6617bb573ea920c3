"""Arguments that cannot be right are refused where they are given."""

from __future__ import annotations

import pytest

import fl_speech as speech
import fl_tensor as ft


@pytest.mark.defect("V18")
def test_a_start_is_a_number_of_samples(tmp_path):
    with pytest.raises(ft.DTypeError, match=r"\[load_audio\] start 1.5: expected an int"):
        speech.load_audio(tmp_path / "sound.wav", start=1.5)


@pytest.mark.defect("item 10")
@pytest.mark.parametrize("name", ["frame_ms", "stride_ms", "mel_floor"])
def test_settings_of_features_are_finite(name):
    with pytest.raises(ft.ArgumentError, match=f"{name} inf must be finite"):
        speech.FeatureParams(**{name: float("inf")})
