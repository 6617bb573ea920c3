"""The filterbank and the features against torchaudio."""

from __future__ import annotations

import numpy as np
import pytest

import fl_speech as speech
import fl_tensor as ft

torch = pytest.importorskip("torch")
torchaudio = pytest.importorskip("torchaudio")


@pytest.mark.parametrize(
    ("filters", "n_fft", "rate"), [(23, 512, 16000), (80, 512, 16000), (40, 256, 8000)]
)
def test_filterbank(filters, n_fft, rate):
    theirs = torchaudio.functional.melscale_fbanks(
        n_fft // 2 + 1, 0.0, rate / 2, filters, rate, norm=None, mel_scale="htk"
    )
    ours = speech.mel_filterbank(filters, n_fft, rate).numpy()
    np.testing.assert_allclose(ours, theirs.numpy(), atol=2e-5)


def test_log_mel(tone):
    x = tone(8000)
    params = speech.FeatureParams(
        filters=40, pre_emphasis=0.0, zero_mean=False, scale=1.0, mel_floor=1e-6
    )
    mel = torchaudio.transforms.MelSpectrogram(
        16000,
        n_fft=512,
        win_length=400,
        hop_length=160,
        f_min=0.0,
        f_max=8000.0,
        n_mels=40,
        window_fn=lambda n: torch.hamming_window(n, periodic=False),
        center=False,
        mel_scale="htk",
        norm=None,
    )
    # torchaudio centres a short window in its transform: frames begin (512 - 400) / 2 samples early
    padded = torch.nn.functional.pad(torch.from_numpy(x), (56, 56))
    theirs = torch.log(torch.clamp(mel.double()(padded), min=1e-6)).T.numpy()
    ours = speech.log_mel(ft.asarray(x), params).numpy()
    np.testing.assert_allclose(ours[: len(theirs)], theirs[: len(ours)], atol=1e-4)
