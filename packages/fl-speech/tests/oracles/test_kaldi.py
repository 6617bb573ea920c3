"""The preset `kaldi` against torchaudio.compliance.kaldi."""

from __future__ import annotations

import numpy as np
import pytest

import fl_speech as speech
import fl_tensor as ft
from fl_speech.features import FeatureExtractor

torch = pytest.importorskip("torch")
kaldi = pytest.importorskip("torchaudio.compliance.kaldi")

#: Our settings and theirs.
CASES = {
    "defaults": ({}, {}),
    "80 filters": ({"filters": 80}, {"num_mel_bins": 80}),
    "8 kHz": ({"sample_rate": 8000}, {"sample_frequency": 8000.0}),
    "energy": ({"energy": "centred"}, {"use_energy": True}),
    "windowed energy": (
        {"energy": "windowed", "energy_floor": 2.0},
        {"use_energy": True, "raw_energy": False, "energy_floor": 2.0},
    ),
    "band": ({"low_hz": 100.0, "high_hz": 7000.0}, {"low_freq": 100.0, "high_freq": 7000.0}),
    "hamming": ({"window": "hamming"}, {"window_type": "hamming"}),
    "hann": ({"window": "hann"}, {"window_type": "hanning"}),
    "blackman": ({"window": "blackman"}, {"window_type": "blackman"}),
    "rectangular": ({"window": "none"}, {"window_type": "rectangular"}),
    "no mean, no emphasis": (
        {"zero_mean": False, "pre_emphasis": 0.0},
        {"remove_dc_offset": False, "preemphasis_coefficient": 0.0},
    ),
    "frames": (
        {"frame_ms": 32.0, "stride_ms": 12.5},
        {"frame_length": 32.0, "frame_shift": 12.5},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["mfsc", "mfcc"])
def test_features_are_theirs(tone, case, kind):
    ours, theirs = CASES[case]
    if kind == "mfcc":
        ours, theirs = {**ours, "cepstra": 13, "lifter": 22.0}, {**theirs, "num_ceps": 13}
    params = speech.FeatureParams.kaldi(**ours)
    x = (tone(9000, params.sample_rate) + 0.01).astype(np.float32)  # with an offset
    function = {"mfsc": kaldi.fbank, "mfcc": kaldi.mfcc}[kind]
    expected = function(torch.from_numpy(x)[None] * 32768.0, **theirs).numpy()
    found = FeatureExtractor(params, kind)(ft.asarray(x)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=0)


def test_magnitudes_are_theirs(tone):
    params = speech.FeatureParams.kaldi(scale=1.0)
    x = tone(4000).astype(np.float32)
    expected = kaldi.fbank(torch.from_numpy(x)[None], use_power=False, use_log_fbank=False)
    found = FeatureExtractor(params, "power")(ft.asarray(x)).numpy()
    bank = speech.mel_filterbank(23, 512, 16000, 20.0, edges="scale").numpy()
    np.testing.assert_allclose(found @ bank, expected.numpy(), atol=1e-3)


@pytest.mark.parametrize("name", ["3_jackson_0.wav", "7_theo_10.wav", "0_nicolas_49.wav"])
def test_speech(recordings, name):
    audio, rate = speech.load_audio(recordings / name)
    x = torch.tensor(audio.numpy()) * 32768.0
    expected = kaldi.fbank(x, sample_frequency=float(rate)).numpy()
    found = FeatureExtractor(speech.FeatureParams.kaldi(sample_rate=rate))(audio).numpy()[0]
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=0)
