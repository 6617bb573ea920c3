"""Log-mel features against an independent float64 computation with NumPy's FFT."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.signal

import fl_speech as speech
import fl_tensor as ft


def reference_filterbank(filters, n_fft, rate, low, high):
    """Triangles by interpolation: filter j is 1 at corner j + 1 and 0 at corners j and j + 2."""
    to_mel = 1127.0 * np.log1p(np.array([low, high]) / 700.0) * (2595 * np.log10(np.e) / 1127.0)
    mels = np.linspace(*to_mel, filters + 2)
    hz = 700.0 * (10 ** (mels / 2595.0) - 1)
    frequencies = np.arange(n_fft // 2 + 1) * rate / n_fft
    peaks = np.eye(filters + 2)[1:-1]
    return np.stack([np.interp(frequencies, hz, peak) for peak in peaks], axis=1)


def reference(x, p):
    size, stride = p.frame_size, p.stride
    count = 1 + (len(x) - size) // stride if len(x) >= size else 0
    out = []
    for i in range(count):
        frame = np.asarray(x[i * stride : i * stride + size], np.float64) * p.scale
        if p.zero_mean:
            frame = frame - frame.mean()
        kernel = [1.0, -p.pre_emphasis]
        frame = scipy.signal.lfilter(kernel, [1.0], frame, zi=[-p.pre_emphasis * frame[0]])[0]
        if p.window != "none":
            frame = frame * scipy.signal.get_window(p.window, size, fftbins=False)
        magnitude = np.abs(np.fft.rfft(frame, p.n_fft))
        spectrum = magnitude**2 if p.power else magnitude
        high = p.sample_rate / 2 if p.high_hz is None else p.high_hz
        bank = reference_filterbank(p.filters, p.n_fft, p.sample_rate, p.low_hz, high)
        out.append(np.log(np.maximum(spectrum @ bank, p.mel_floor)))
    return np.array(out).reshape(count, p.filters)


SETTINGS = {
    "default": {},
    "recogniser": {"filters": 80, "power": False, "zero_mean": False},
    "8 kHz": {"sample_rate": 8000, "filters": 40},
    "odd rate": {"sample_rate": 22050, "filters": 40, "window": "hann"},
    "44.1 kHz": {"sample_rate": 44100, "filters": 64},
    "band": {"low_hz": 60.0, "high_hz": 7600.0, "pre_emphasis": 0.0, "window": "none"},
    "short frames": {"frame_ms": 8.0, "stride_ms": 8.0, "filters": 10, "mel_floor": 1e-3},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 2e-3)])
def test_log_mel_agrees_with_the_reference(tone, name, dtype, tolerance):
    params = speech.FeatureParams(**SETTINGS[name])
    x = tone(6000, params.sample_rate)
    got = speech.log_mel(ft.asarray(x, dtype=dtype), params)
    expected = reference(x, params)
    assert got.shape == expected.shape == (params.frames(6000), params.filters)
    assert str(got.dtype) == dtype
    np.testing.assert_allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance)


def test_real_speech_agrees_with_the_reference(recordings):
    params = speech.FeatureParams(sample_rate=8000, filters=40)
    for name in ("3_jackson_0.wav", "7_theo_10.wav", "0_nicolas_49.wav"):
        audio, _ = speech.load_audio(recordings / name, sample_rate=8000)
        got = speech.log_mel(audio, params)
        expected = reference(audio.numpy()[0], params)
        np.testing.assert_allclose(got.numpy()[0], expected, rtol=2e-3, atol=2e-3)
        assert expected.std() > 1  # it is not all floor


@pytest.mark.parametrize(
    ("n", "frames"), [(0, 0), (399, 0), (400, 1), (559, 1), (560, 2), (4000, 23)]
)
def test_whole_frames_only(tone, n, frames):
    features = speech.log_mel((ft.asarray(tone(n), dtype=ft.float32), 16000))
    assert features.shape == (frames, 23)
    assert speech.FeatureParams().frames(n) == frames


def test_leading_axes_are_kept(tone):
    x = np.stack([tone(2000, seed=s) for s in range(6)]).reshape(2, 3, 2000)
    got = speech.log_mel((ft.asarray(x), 16000)).numpy()
    assert got.shape == (2, 3, 11, 23)
    single = speech.log_mel((ft.asarray(x[1, 2]), 16000)).numpy()
    np.testing.assert_allclose(got[1, 2], single, rtol=1e-12)


@pytest.mark.defect("P11")
def test_the_rate_comes_with_the_samples(write, tone):
    pair = speech.load_audio(write("a.flac", tone(8000, 8000), 8000))
    params = speech.FeatureParams(sample_rate=8000)
    expected = reference(pair[0].numpy()[0], params)
    for got in (speech.log_mel(pair), speech.log_mel(pair, params), speech.LogMel(params)(pair)):
        np.testing.assert_allclose(got.numpy()[0], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.defect("P11")
def test_samples_without_a_rate_are_refused(write, tone):
    audio, rate = speech.load_audio(write("a.flac", tone(8000, 8000), 8000))
    with pytest.raises(ft.ArgumentError, match=r"without a rate: give the pair \(audio, rate\)"):
        speech.log_mel(audio)
    for features in (speech.LogMel(speech.FeatureParams(filters=20)), speech.LogMel()):
        with pytest.raises(ft.ArgumentError, match=r"has 8000 Hz, the features are for 16000 Hz"):
            features((audio, rate))
        with pytest.raises(ft.ArgumentError, match=r"3 values: expected samples, or \(audio, rate"):
            features((audio, rate, rate))


def test_silence_gives_the_floor():
    features = speech.log_mel(ft.zeros((800,)), speech.FeatureParams(mel_floor=2.0))
    np.testing.assert_allclose(features.numpy(), math.log(2.0), rtol=1e-6)


def test_only_public_operations_are_used_so_overrides_see_them(tone):
    calls = []

    def counting(inner, *arguments):
        calls.append(1)
        return inner.matmul(*arguments)

    with ft.override(matmul=counting):
        speech.log_mel((ft.asarray(tone(800)), 16000))
    assert len(calls) == 3  # real and imaginary parts, filterbank


@pytest.mark.parametrize("n_fft", [2, 8, 256, 1024])
def test_dft_matrix_is_the_fourier_transform(n_fft):
    size = max(n_fft - 3, 1)
    x = np.random.default_rng(0).standard_normal((5, size))
    got = (ft.asarray(x) @ speech.dft_matrix(size, n_fft)).numpy()
    expected = np.fft.rfft(x, n_fft)
    bins = n_fft // 2 + 1
    np.testing.assert_allclose(got[:, :bins], expected.real, atol=1e-11)
    np.testing.assert_allclose(got[:, bins:], expected.imag, atol=1e-11)
    power = speech.power_spectrum(ft.asarray(x), speech.dft_matrix(size, n_fft))
    np.testing.assert_allclose(power.numpy(), np.abs(expected) ** 2, atol=1e-9)


@pytest.mark.parametrize("name", ["hamming", "hann"])
@pytest.mark.parametrize("size", [1, 2, 400])
def test_windows(name, size):
    expected = scipy.signal.get_window(name, size, fftbins=False)
    got = speech.window(name, size).numpy()
    if size > 1:
        np.testing.assert_allclose(got, expected, atol=1e-15)
    assert got.shape == (size,)


def test_frames_and_pre_emphasis_by_hand():
    x = ft.asarray([1.0, 2.0, 4.0, 8.0, 16.0])
    assert speech.frames(x, 3, 2).tolist() == [[1, 2, 4], [4, 8, 16]]
    assert speech.pre_emphasis(x, 0.5).tolist() == [0.5, 1.5, 3.0, 6.0, 12.0]


def test_mel_scale():
    assert speech.hz_to_mel(1000.0) == pytest.approx(1000.0, abs=0.1)
    assert speech.mel_to_hz(speech.hz_to_mel(440.0)) == pytest.approx(440.0)
    bank = speech.mel_filterbank(23, 512, 16000).numpy()
    assert bank.shape == (257, 23)
    np.testing.assert_allclose(bank, reference_filterbank(23, 512, 16000, 0, 8000), atol=1e-9)
    # neighbours' edges add up to one between the first and the last peak
    peaks = bank.argmax(axis=0)
    np.testing.assert_allclose(bank[peaks[0] : peaks[-1]].sum(axis=1), 1.0, atol=1e-9)


def test_wrong_settings_are_named_all_at_once():
    with pytest.raises(ft.ArgumentError) as caught:
        speech.FeatureParams(filters=0, low_hz=9000.0, window="kaiser", mel_floor=0.0)
    for part in ("filters 0", "low_hz 9000.0", "window 'kaiser'", "mel_floor 0.0"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"sample_rate": 0},
        {"frame_ms": 0.01},
        {"stride_ms": 0.01},
        {"frame_ms": 5000.0},
        {"high_hz": 9000.0},
        {"pre_emphasis": 1.0},
        {"scale": 0.0},
    ],
)
def test_each_wrong_setting_is_refused(settings):
    with pytest.raises(ft.ArgumentError, match=next(iter(settings))):
        speech.FeatureParams(**settings)


def test_wrong_input_is_refused():
    with pytest.raises(ft.DTypeError, match=r"\(800,\) of int64"):
        speech.log_mel((ft.zeros((800,), dtype=ft.int64), 16000))
    with pytest.raises(ft.ShapeError, match="last axis"):
        speech.log_mel((ft.asarray(1.0), 16000))
    with pytest.raises(ft.ArgumentError, match="stride"):
        speech.frames(ft.zeros((8,)), 4, 0)
    with pytest.raises(ft.ArgumentError, match="do not fit"):
        speech.dft_matrix(9, 8)
    with pytest.raises(ft.ArgumentError, match="unknown window"):
        speech.window("triangle", 8)
    with pytest.raises(ft.ArgumentError, match="mel_filterbank"):
        speech.mel_filterbank(4, 512, 16000, 500.0, 400.0)


@pytest.mark.defect("V13")
@pytest.mark.parametrize("filters", [258, 5000, 10**6])
def test_more_filters_than_frequencies_are_refused(filters):
    with pytest.raises(ft.ArgumentError, match=f"filters {filters} must be from 1 to 257"):
        speech.FeatureParams(filters=filters)
    with pytest.raises(ft.ArgumentError, match=f"filters {filters}, n_fft 512"):
        speech.mel_filterbank(filters, 512, 16000)
    assert speech.FeatureParams(filters=257).filters == 257
