"""MFSC, MFCC and magnitudes against a float64 computation; batches, lengths and streams agree."""

from __future__ import annotations

import itertools
import os
import pickle

import numpy as np
import pytest

import fl_autograd as ag
import fl_speech as speech
import fl_tensor as ft
from fl_speech.features import FeatureExtractor, LogMel, dct_matrix, deltas, lifter_weights

EVERY = {
    "kind": ("mfsc", "mfcc", "power"),
    "energy": ("none", "raw", "centred", "windowed"),
    "power": (True, False),
    "zero_mean": (True, False),
    "windows": ((0, 0), (2, 0), (2, 2), (9, 7)),
    "dither": (0.0, 3.0, -3.0),
    "window": ("hamming", "hann"),
}
COMBINATIONS = [
    dict(zip(EVERY, values, strict=True)) for values in itertools.product(*EVERY.values())
]
if not os.environ.get("FL_FEATURES_ALL"):
    COMBINATIONS = COMBINATIONS[::61]


def settings(combination):
    given = {k: v for k, v in combination.items() if k not in ("kind", "windows")}
    given["delta_window"], given["acc_window"] = combination["windows"]
    return speech.FeatureParams(sample_rate=8000, filters=12, cepstra=7, **given)


def noise(x, p, frames):
    """What dither adds: the same for each sequence where the seed is fixed."""
    shape = (frames, p.frame_size)
    if p.dither > 0:
        return ft.Generator(123456).uniform(shape, -p.dither, p.dither, dtype=ft.float64).numpy()
    return ft.Generator(7).uniform(shape, p.dither, -p.dither, dtype=ft.float64).numpy()


def regression(x, width):
    """HTK's formula, one frame after the other."""
    out = np.zeros_like(x)
    for t in range(len(x)):
        for i in range(1, width + 1):
            out[t] += i * (x[min(t + i, len(x) - 1)] - x[max(t - i, 0)])
    return out / (2 * sum(i * i for i in range(1, width + 1)))


def triangles(p):
    to_mel = lambda hz: 2595.0 * np.log10(1 + hz / 700.0)  # noqa: E731
    mels = np.linspace(to_mel(p.low_hz), to_mel(p.high_hz or p.sample_rate / 2), p.filters + 2)
    hz = np.arange(p.n_fft // 2 + 1) * p.sample_rate / p.n_fft
    corners, at = (
        (mels, to_mel(hz)) if p.edges == "scale" else (700 * (10 ** (mels / 2595) - 1), hz)
    )
    return np.stack([np.interp(at, corners, peak) for peak in np.eye(p.filters + 2)[1:-1]], axis=1)


def reference(x, p, kind):
    """float64, frame by frame, with NumPy's FFT."""
    count = p.frames(len(x))
    rows, dither = [], noise(x, p, count) if p.dither else np.zeros((count, p.frame_size))
    for t in range(count):
        frame = x[t * p.stride : t * p.stride + p.frame_size].astype(np.float64) * p.scale
        energy = {"raw": np.sum(frame**2)}
        frame = frame + dither[t]
        frame = frame - frame.mean() if p.zero_mean else frame
        energy["centred"] = np.sum(frame**2)
        frame = frame - p.pre_emphasis * np.concatenate([frame[:1], frame[:-1]])
        shape = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(p.frame_size) / (p.frame_size - 1))
        frame = (
            frame * {"hamming": 0.08 + 0.92 * shape, "hann": shape, "povey": shape**0.85}[p.window]
        )
        energy["windowed"] = np.sum(frame**2)
        spectrum = np.abs(np.fft.rfft(frame, p.n_fft))
        if kind == "power":
            rows.append(spectrum)
            continue
        row = np.log(np.maximum((spectrum**2 if p.power else spectrum) @ triangles(p), p.mel_floor))
        if kind == "mfcc":
            k = np.arange(p.cepstra)
            row = (
                np.sqrt(2 / p.filters)
                * np.cos(np.pi * np.outer(k, np.arange(p.filters) + 0.5) / p.filters)
                @ row
            )
            row[0] *= np.sqrt(0.5) if p.dct == "orthonormal" else 1.0
            row = row * (1 + p.lifter / 2 * np.sin(np.pi * k / p.lifter))
            row = row[1:] if p.energy != "none" else row
        if p.energy != "none":
            row = np.concatenate([[np.log(max(energy[p.energy], p.energy_floor))], row])
        rows.append(row)
    out = [np.array(rows)]
    if kind != "power":
        out += [regression(out[-1], w) for w in (p.delta_window, p.acc_window)[:1] if w]
        out += [regression(out[-1], w) for w in (p.acc_window,) if w]
    return np.concatenate(out, axis=1)


@pytest.mark.parametrize("kind", ["mfsc", "mfcc", "power"])
@pytest.mark.parametrize("preset", ["flashlight", "kaldi"])
@pytest.mark.parametrize("rate", [8000, 16000, 22050])
def test_presets_agree_with_the_reference(tone, preset, kind, rate):
    p = getattr(speech.FeatureParams, preset)(sample_rate=rate)
    x = tone(7000, rate)
    expected = reference(x, p, kind)
    for dtype, tolerance in (("float64", 1e-8), ("float32", 2e-3)):
        found = FeatureExtractor(p, kind)(ft.asarray(x, dtype=dtype))
        assert found.shape == expected.shape == (p.frames(7000), FeatureExtractor(p, kind).size)
        scale = np.abs(expected).max() if kind == "power" else 1.0
        np.testing.assert_allclose(found.numpy() / scale, expected / scale, atol=tolerance)


def test_flashlight_has_the_defaults_of_the_original():
    p = speech.FeatureParams.flashlight()
    assert (p.filters, p.cepstra, p.lifter, p.window, p.pre_emphasis) == (
        23,
        13,
        22,
        "hamming",
        0.97,
    )
    assert (p.delta_window, p.acc_window, p.mel_floor, p.dither) == (2, 2, 1.0, 0.0)
    assert (p.power, p.energy, p.zero_mean) == (True, "raw", True)
    assert FeatureExtractor(p, "mfsc").size == 3 * 24 and FeatureExtractor(p, "mfcc").size == 39
    assert speech.FeatureParams.flashlight(filters=80, energy="none").energy == "none"


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: "-".join(map(str, c.values())))
def test_batches_and_streams_are_the_sequences_one_by_one(tone, combination):
    p, kind = settings(combination), combination["kind"]
    extractor, rng = FeatureExtractor(p, kind), np.random.default_rng(0)
    lengths = [0, 150, 200, 1999, 2600]
    x = [tone(n, 8000, seed=n) for n in lengths]
    generator = lambda: ft.Generator(7)  # noqa: E731
    single = [extractor(ft.asarray(v), generator=generator()).numpy() for v in x]
    np.testing.assert_allclose(single[3], reference(x[3], p, kind), rtol=1e-8, atol=1e-8)
    # Operations with gradients, which the host's features do not have.
    composed = extractor(ag.Variable(ft.asarray(x[3])), generator=generator())
    np.testing.assert_allclose(composed.numpy(), single[3], rtol=1e-8, atol=1e-8)
    # A stream in random chunks.
    for v, expected in zip(x, single, strict=True):
        stream = extractor.stream(generator=generator())
        cuts = np.sort(rng.integers(0, len(v) + 1, 6))
        parts = [stream.push(ft.asarray(piece)) for piece in np.split(v, cuts)]
        parts.append(stream.finish())
        found = np.concatenate([part.numpy() for part in parts])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    # A padded batch; its noise differs from that of single sequences where the caller draws it.
    batch = np.stack([np.pad(v, (0, 2700 - len(v)), constant_values=9.0) for v in x])
    values, counts = extractor(ft.asarray(batch), lengths, generator=generator())
    assert counts.tolist() == [len(s) for s in single] and counts.dtype == ft.int64
    for row, expected in zip(values.numpy(), single, strict=True):
        assert not row[len(expected) :].any()
        if p.dither >= 0:
            np.testing.assert_allclose(row[: len(expected)], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["mfsc", "mfcc", "power", "raw"])
def test_nothing_gives_nothing_and_silence_gives_zeros(kind):
    extractor = FeatureExtractor(speech.FeatureParams.flashlight(), kind)
    assert extractor(ft.zeros((0,))).shape == (0, extractor.size)
    assert extractor(ft.zeros((3, 0))).shape == (3, 0, extractor.size)
    found = extractor(ft.zeros((2, 1200)))
    assert found.shape == (2, extractor.frame_count(1200), extractor.size)
    np.testing.assert_allclose(found.numpy(), 0.0, atol=1e-12)


def test_raw_features_are_the_samples():
    x = ft.asarray(np.arange(6.0).reshape(2, 3))
    values, counts = FeatureExtractor(kind="raw")(x, [3, 2])
    assert values.tolist() == [[[0], [1], [2]], [[3], [4], [0]]] and counts.tolist() == [3, 2]


def test_cepstral_tables():
    table = dct_matrix(9, 6).numpy()
    places = np.arange(9) + 0.5
    for k in range(6):
        np.testing.assert_allclose(table[:, k], np.sqrt(2 / 9) * np.cos(np.pi * k * places / 9))
    orthonormal = dct_matrix(9, 9, "orthonormal").numpy()
    np.testing.assert_allclose(orthonormal.T @ orthonormal, np.eye(9), atol=1e-12)
    lifter = lifter_weights(25, 22).numpy()
    np.testing.assert_allclose(lifter, 1 + 11 * np.sin(np.pi * np.arange(25) / 22))
    assert lifter[11] == 12.0 and lifter_weights(3, 0).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("scale", "low", "to_hz", "to_scale"),
    [("linear", 0.0, float, float), ("log10", 20.0, lambda v: 10.0**v, np.log10)],
)
def test_filters_on_other_scales(scale, low, to_hz, to_scale):
    frequencies = np.arange(513) * 20000 / 1024
    corners = [to_hz(v) for v in np.linspace(to_scale(low), to_scale(10000.0), 12)]
    expected = np.stack([np.interp(frequencies, corners, e) for e in np.eye(12)[1:-1]], axis=1)
    found = speech.mel_filterbank(10, 1024, 20000, low, scale=scale).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-9)
    params = speech.FeatureParams(
        sample_rate=20000, filters=10, low_hz=low, frequency_scale=scale, frame_ms=50.0
    )
    assert FeatureExtractor(params)(ft.ones((1000,))).shape == (1, 10)
    with pytest.raises(ft.ArgumentError, match="begins above 0 Hz"):
        speech.mel_filterbank(10, 1024, 20000, scale="log10")
    with pytest.raises(ft.ArgumentError, match="scale 'bark'"):
        speech.mel_filterbank(10, 1024, 20000, scale="bark")


def test_long_transforms_need_an_fft_or_shorter_frames(monkeypatch, tone):
    extractor = FeatureExtractor(speech.FeatureParams(frame_ms=100.0))
    x = ft.asarray(tone(4000))
    expected = extractor(x).numpy()
    monkeypatch.setattr(type(x.backend), "capabilities", frozenset())
    np.testing.assert_allclose(extractor(x).numpy(), expected, rtol=1e-7)
    with pytest.raises(ft.ArgumentError, match="capability 'fft'"):
        FeatureExtractor(speech.FeatureParams(frame_ms=500.0))(ft.zeros((9000,)))


@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("count", [1, 2, 15])
def test_deltas_are_the_regression(width, count):
    x = np.random.default_rng(1).normal(size=(3, count, 5))
    found = deltas(ft.asarray(x), width).numpy()
    np.testing.assert_allclose(found, [regression(v, width) for v in x], atol=1e-12)
    lengths = [count, max(count - 1, 1), 1]
    padded = deltas(ft.asarray(x), width, ft.asarray(lengths)).numpy()
    for row, v, n in zip(padded, x, lengths, strict=True):
        np.testing.assert_allclose(row[:n], regression(v[:n], width), atol=1e-12)


def test_dither_is_the_same_in_each_call_or_drawn_by_the_caller(tone):
    x = ft.asarray(tone(2000))
    fixed = FeatureExtractor(speech.FeatureParams(dither=1.0))
    assert fixed(x).tolist() == fixed(x).tolist()
    drawn = FeatureExtractor(speech.FeatureParams(dither=-1.0))
    generator = ft.Generator(5)
    first, second = drawn(x, generator=generator), drawn(x, generator=generator)
    assert first.tolist() != second.tolist()
    assert drawn(x, generator=ft.Generator(5)).tolist() == first.tolist()
    assert fixed(x).tolist() != FeatureExtractor()(x).tolist()


@pytest.mark.parametrize("rate", [16000, 22050, 44100])
def test_each_transform_gives_the_same_numbers(tone, rate):
    p, x = speech.FeatureParams(sample_rate=rate), ft.asarray(tone(5000, rate))
    matrix, fft, auto = (
        FeatureExtractor(p, "power", transform=t)(x) for t in ("matrix", "fft", "auto")
    )
    np.testing.assert_allclose(matrix.numpy(), fft.numpy(), rtol=1e-7, atol=1e-5)
    chosen = fft if p.n_fft > 1024 else matrix
    assert auto.tolist() == chosen.tolist()
    assert fft.tolist() != matrix.tolist()


@pytest.mark.parametrize("kind", ["mfsc", "mfcc", "power"])
@pytest.mark.parametrize("transform", ["matrix", "fft"])
def test_gradients(tone, kind, transform):
    p = speech.FeatureParams.flashlight(
        sample_rate=1000, frame_ms=16.0, stride_ms=6.0, filters=5, cepstra=3, power=False, scale=1e3
    )
    extractor = FeatureExtractor(p, kind, transform=transform)
    ag.check_grads(lambda x: extractor(x), [tone(50, 1000)])
    silent = ag.Variable(ft.zeros((50,)), requires_grad=True)
    extractor(silent).sum().backward()
    assert np.isfinite(silent.grad.numpy()).all()


def test_a_stream_of_frames_with_gaps(tone):
    extractor = FeatureExtractor(speech.FeatureParams(frame_ms=10.0, stride_ms=25.0))
    x, stream = tone(3000), extractor.stream()
    parts = [stream.push(ft.asarray(x[i : i + 170])) for i in range(0, 3000, 170)]
    found = np.concatenate([p.numpy() for p in (*parts, stream.finish())])
    np.testing.assert_allclose(found, extractor(ft.asarray(x)).numpy(), atol=1e-9)
    assert stream.frames == 0  # it begins anew


def test_wrong_settings_and_inputs_are_refused():
    for given, part in (
        ({"energy": "log"}, "energy 'log'"),
        ({"acc_window": 2}, "acc_window 2 needs a delta_window"),
        ({"delta_window": -1}, "delta_window -1"),
        ({"frequency_scale": "log10"}, "low_hz 0.0 must be above 0"),
        ({"dither": float("nan")}, "dither nan must be finite"),
        ({"dct": "dst"}, "dct 'dst'"),
        ({"edges": "mel"}, "edges 'mel'"),
        ({"lifter": -1.0}, "lifter -1.0"),
        ({"cepstra": 0}, "cepstra 0"),
    ):
        with pytest.raises(ft.ArgumentError, match=part):
            speech.FeatureParams(**given)
    with pytest.raises(ft.ArgumentError, match="kind 'lpc' must be one of"):
        FeatureExtractor(kind="lpc")
    with pytest.raises(ft.ArgumentError, match="13 cepstra of 10 filters"):
        FeatureExtractor(speech.FeatureParams(filters=10), "mfcc")
    with pytest.raises(ft.ArgumentError, match="transform 'dft' must be one of"):
        FeatureExtractor(transform="dft")
    long = FeatureExtractor(speech.FeatureParams(frame_ms=300.0), transform="matrix")
    with pytest.raises(ft.ArgumentError, match="a transform of 8192 is no matrix product"):
        long(ft.zeros((8000,)))
    extractor = FeatureExtractor()
    with pytest.raises(ft.ShapeError, match=r"lengths \(3,\) for x \(2, 800\)"):
        extractor(ft.zeros((2, 800)), [1, 2, 3])
    with pytest.raises(ft.DTypeError, match="lengths of float"):
        extractor(ft.zeros((2, 800)), [1.0, 2.0])
    stream = extractor.stream()
    with pytest.raises(ft.ArgumentError, match="finish before the first chunk"):
        stream.finish()
    stream.push(ft.zeros((2, 800)))
    with pytest.raises(ft.ShapeError, match=r"chunk \(3, 800\)"):
        stream.push(ft.zeros((3, 800)))


def test_an_extractor_is_pickled_without_its_constants(tone):
    x = ft.asarray(tone(4000), dtype="float32")
    for extractor in (FeatureExtractor(speech.FeatureParams.flashlight(), "mfcc"), LogMel()):
        before = len(pickle.dumps(extractor))
        expected = extractor(x)
        sent = pickle.dumps(extractor)
        assert len(sent) == before < 2000
        np.testing.assert_array_equal(pickle.loads(sent)(x).numpy(), expected.numpy())


@pytest.mark.parametrize("kind", ["mfsc", "mfcc", "power"])
@pytest.mark.parametrize("energy", ["none", "raw"])
def test_the_host_agrees_with_composed_operations(tone, kind, energy):
    """Several blocks of frames, sequences of two axes, samples that lie apart."""
    params = speech.FeatureParams.flashlight(sample_rate=8000, filters=30, energy=energy)
    extractor = FeatureExtractor(params, kind)
    x = np.stack([tone(2 * 30_000, 8000, seed=i) for i in range(4)]).reshape(2, 2, -1)[..., ::2]
    for dtype, tolerance in (("float64", 1e-9), ("float32", 2e-3)):
        samples = ft.asarray(x, dtype=dtype)
        found, expected = extractor(samples), extractor(ag.Variable(samples))
        assert found.shape == expected.shape == (2, 2, 373, extractor.size)
        assert isinstance(found, ft.Tensor) and found.dtype == samples.dtype
        scale = expected.numpy().max() if kind == "power" else 1.0
        np.testing.assert_allclose(found.numpy() / scale, expected.numpy() / scale, atol=tolerance)


def test_a_trace_and_a_backend_without_data_see_the_operations(tone):
    extractor = FeatureExtractor()
    x = ft.asarray(tone(4000), dtype="float32")
    with ft.trace() as graph:
        extractor(x)
    assert "log" in {node.op for node in graph.nodes}
    with ft.use("null"):
        assert extractor(ft.zeros((2, 4000))).shape == (2, 23, 23)
