"""Sound effects: what they do to a recording, and that chance comes from the generator alone."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import fl_data as data
import fl_speech as speech
import fl_tensor as ft
from fl_speech.effects import (
    AdditiveNoise,
    Amplify,
    ClampAmplitude,
    GaussianNoise,
    Normalize,
    ReverbEcho,
    SoundEffect,
    SoundEffectChain,
    TimeStretch,
    time_stretch,
)
from fl_speech.errors import EffectError


@pytest.fixture
def noise_list(write, tmp_path):
    """A list of three recordings of noise, of one second, two channels, and 100 samples."""
    rng = np.random.default_rng(7)
    for name, shape in [("a.wav", 16000), ("b.flac", (4000, 2)), ("c.wav", 100)]:
        write(f"noise/{name}", 0.2 * rng.standard_normal(shape).clip(-4, 4))
    path = tmp_path / "noise" / "list.txt"
    path.write_text("a.wav\n\n  b.flac\nc.wav\n")
    return path


def rms(x):
    return math.sqrt(np.mean(np.square(x, dtype=np.float64)))


def snr(x, y):
    return 20 * math.log10(rms(x) / rms(y - x))


@pytest.fixture
def each(noise_list):
    """Every effect, applied always."""
    return [
        AdditiveNoise(noise_list),
        GaussianNoise(),
        ReverbEcho(),
        TimeStretch(),
        Amplify(),
        ClampAmplitude(),
        Normalize(),
        SoundEffectChain([Amplify(1.0, 4.0), GaussianNoise(), ClampAmplitude()]),
    ]


@pytest.mark.parametrize("wanted", [1, 8, 15, 22, 29])
def test_additive_noise_has_its_signal_to_noise_ratio(noise_list, tone, wanted):
    x = tone(20_000)
    for seed in range(3):
        y = AdditiveNoise(noise_list, min_snr=wanted, max_snr=wanted)(x, seed)
        assert snr(x, y) == pytest.approx(wanted, rel=0.02)
        part = AdditiveNoise(noise_list, ratio=0.25, min_snr=wanted, max_snr=wanted)(x, seed)
        assert snr(x, part) == pytest.approx(wanted, rel=0.02)


def test_additive_noise_covers_its_share(noise_list, tone):
    x = tone(10_000)
    starts = set()
    for seed in range(8):
        changed = AdditiveNoise(noise_list, ratio=0.3)(x, seed) != x
        assert changed.sum() in range(2990, 3001)
        edges = np.flatnonzero(np.diff(np.append(changed, changed[0]).astype(int)) == 1)
        assert len(edges) <= 12  # one stretch, or its two ends, and a few samples of silence
        starts.add(int(edges[0]))
    assert len(starts) == 8


def test_additive_noise_of_every_number_of_clips(noise_list, tone):
    x = tone(5000)
    assert AdditiveNoise(noise_list, n_clips_min=0, n_clips_max=0)(x, 0) is x
    assert AdditiveNoise(noise_list, ratio=0.0)(x, 0) is x
    one = AdditiveNoise(noise_list, n_clips_min=1, n_clips_max=1, min_snr=0, max_snr=0)
    assert len({float(one(x, seed)[0]) for seed in range(5)}) == 5
    both = one(np.stack([x, -x]), 0)
    np.testing.assert_allclose(both[0] - x, both[1] + x)  # one noise in all channels


def test_clips_are_repeated_from_anywhere(write, tmp_path):
    write("n.wav", np.arange(1, 6) / 8, subtype="FLOAT")
    (tmp_path / "l.txt").write_text("n.wav\n")
    noise = AdditiveNoise(tmp_path / "l.txt", n_clips_max=1, min_snr=0, max_snr=0)
    starts = set()
    for count in (3, 5, 13):
        for seed in range(20):
            added = noise(np.ones(count), seed) - 1
            found = [
                shift
                for shift in range(5)
                for start in range(count)
                if np.allclose(np.roll(looped(shift, count), start), added)
            ]
            assert found
            starts.add(found[0])
    assert starts == set(range(5))


def looped(shift: int, count: int) -> np.ndarray:
    """`count` numbers of 1 2 3 4 5 1 2 ... from `shift` on, of root mean square 1."""
    x = np.resize(np.roll(np.arange(1.0, 6.0), -shift), count)
    return x / rms(x)


def test_gaussian_noise_has_its_signal_to_noise_ratio(tone):
    x = tone(16_000)
    found = [snr(x, GaussianNoise(min_snr=8, max_snr=12)(x, seed)) for seed in range(40)]
    assert all(8 - 0.1 <= each <= 12 + 0.1 for each in found)
    assert min(found) < 8.5 and max(found) > 11.5
    few = x[1000:1010]  # the ratio is that of the noise that was drawn
    assert snr(few, GaussianNoise(min_snr=10, max_snr=10)(few, 0)) == pytest.approx(10)
    added = GaussianNoise(min_snr=10, max_snr=10)(np.stack([x, x]), 3) - x
    share = np.mean(np.abs(added) < rms(added))
    assert share == pytest.approx(0.6827, abs=0.01)  # within one deviation
    assert abs(np.corrcoef(added)[0, 1]) < 0.05  # channels have noise of their own


def test_echoes_stand_where_they_should():
    x = np.zeros(32_000)
    x[0] = 1.0
    exact = dict(jitter=0.0, repeat=1, initial_min=0.5, initial_max=0.5)
    times = dict(rt60_min=0.4, rt60_max=0.4, first_delay_min=0.02, first_delay_max=0.02)
    y = ReverbEcho(**exact, **times)(x, 0)
    places = np.flatnonzero(np.abs(y) > 1e-6)
    np.testing.assert_array_equal(places, np.arange(len(places)) * 321)  # 320 samples and one
    lost = 10 ** (-3 * 0.02 / 0.4)
    np.testing.assert_allclose(y[places[1:]], 0.5 * lost ** np.arange(len(places) - 1), atol=1e-9)
    three = ReverbEcho(**(exact | {"repeat": 3}), **times)(x, 0)  # at the same places
    np.testing.assert_allclose(three[1:], 3 * y[1:], atol=1e-9)
    assert len(places) - 1 == 20  # the last one is less than 60 dB below the first


def test_jitter_and_repetition_of_echoes():
    x = np.zeros(32_000)
    x[0] = 1.0
    echo = dict(initial_min=0.1, initial_max=0.1, first_delay_min=0.02, first_delay_max=0.02)
    y = ReverbEcho(repeat=3, jitter=0.1, **echo)(x, 0)
    first = np.flatnonzero(np.abs(y) > 0.09)[1:4]
    assert len(first) == 3 and len(set(first)) == 3  # three series
    assert all(0.9 * 320 <= place <= 1.1 * 320 + 1 for place in first)
    assert rms(ReverbEcho(repeat=0)(x, 0) - x) == 0
    later = np.roll(x, 31_999)
    np.testing.assert_allclose(ReverbEcho()(later, 0), later, atol=1e-9)


@pytest.mark.parametrize("factor", [0.5, 0.8, 0.97, 1.1, 1.25, 1.7, 2.0])
def test_stretching_changes_the_tempo_and_keeps_the_pitch(factor):
    rate, seconds = 16000, 1.5
    t = np.arange(int(rate * seconds)) / rate
    # A voice: harmonics of 140 Hz; and a click of noise at a third of the time.
    x = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 9)) * 0.2
    y = time_stretch(x, factor, rate)
    assert len(y) == pytest.approx(len(x) / factor, rel=0.05)
    spectrum = np.abs(np.fft.rfft(y * np.hanning(len(y))))
    assert spectrum.argmax() * rate / len(y) == pytest.approx(140, rel=0.01)
    middle = y[2000:-2000]
    assert rms(middle) == pytest.approx(rms(x), rel=0.05)  # segments fit one another
    x[len(x) // 3 :] *= 0.01
    loud = np.abs(time_stretch(x, factor, rate)) > 0.02
    assert np.flatnonzero(loud)[-1] == pytest.approx(len(y) / 3, abs=0.04 * rate)


def test_stretching_of_short_and_silent_recordings():
    for count in (1, 2, 7, 100, 700):
        for factor in (0.1, 0.5, 2.0, 10.0):
            y = time_stretch(np.ones((2, count), np.float32), factor)
            assert y.shape == (2, max(1, round(count / factor))) and y.dtype == np.float32
    np.testing.assert_array_equal(time_stretch(np.zeros(9000), 0.7), np.zeros(12857))
    x = np.ones(50)
    assert time_stretch(x, 1) is x
    np.testing.assert_allclose(time_stretch(np.ones(9000), 1.3)[400:-900], 1.0)
    both = time_stretch(np.stack([np.ones(9000), 3 * np.ones(9000)]), 1.3)
    np.testing.assert_allclose(both[1], 3 * both[0])  # channels move together


def test_effects_on_the_amplitude():
    x = np.array([0.5, -2.0, 1.5])
    assert ClampAmplitude()(x, 0).tolist() == [0.5, -1.0, 1.0]
    assert Normalize()(x, 0).tolist() == [0.25, -1.0, 0.75]
    assert Normalize()(x / 4, 0).tolist() == (x / 4).tolist()
    assert Normalize(only_if_too_high=False)(x / 4, 0).tolist() == [0.25, -1.0, 0.75]
    assert Normalize(only_if_too_high=False)(0 * x, 0).tolist() == (0 * x).tolist()
    ratios = [float(Amplify(2.0, 3.0)(x, seed)[0]) / 0.5 for seed in range(50)]
    assert min(ratios) >= 2 and max(ratios) < 3 and max(ratios) - min(ratios) > 0.8


def test_a_chain_applies_effects_in_their_order():
    x = np.array([0.5, 2.0])
    double, clamp = Amplify(2.0, 2.0), ClampAmplitude()
    assert SoundEffectChain([double, clamp])(x, 0).tolist() == [1.0, 1.0]
    assert SoundEffectChain([clamp, double])(x, 0).tolist() == [1.0, 2.0]
    assert SoundEffectChain([clamp, SoundEffectChain([double])])(x, 0).tolist() == [1.0, 2.0]
    assert SoundEffectChain()(x, 0) is x and len(SoundEffectChain()) == 0


def test_effects_of_a_chain_draw_for_themselves(tone):
    """What one draws does not depend on how much those before it draw."""
    x = tone(500)
    off = SoundEffectChain([GaussianNoise(proba=0.0), Amplify()])(x, 5)
    assert off.tolist() == SoundEffectChain([ClampAmplitude(), Amplify()])(x, 5).tolist()


def test_probabilities(tone):
    x = tone(300)
    for kind in (GaussianNoise, ReverbEcho, TimeStretch):
        changed = sum(kind(proba=0.3)(x, seed) is not x for seed in range(100))
        assert 15 <= changed <= 45
        assert kind(proba=0.0)(x, 0) is x


def test_the_generator_alone_decides(each, tone):
    x = tone(3000).astype(np.float32)
    for effect in each:
        one = effect(x, ft.Generator(3))
        np.testing.assert_array_equal(effect(x, 3), one)
        tensor = effect(ft.asarray(x, backend="numpy"), ft.Generator(3))
        assert tensor.backend.name == "numpy"
        np.testing.assert_array_equal(tensor.numpy(), one, strict=True)
        again = pickle.loads(pickle.dumps(effect))
        np.testing.assert_array_equal(again(x, 3), one)
        if not isinstance(effect, ClampAmplitude | Normalize):
            assert effect(x, 4).tolist() != one.tolist()


def test_axes_dtypes_and_inputs_are_kept(each, tone):
    x = np.stack([tone(2000), tone(2000, seed=1)])
    before = x.copy()
    for effect in each:
        for dtype in (np.float32, np.float64):
            y = effect(x.astype(dtype), 1)
            assert y.dtype == dtype and y.ndim == 2 and y.shape[0] == 2
        effect(x, 1)
        np.testing.assert_array_equal(x, before)
        nothing = np.zeros((2, 0))
        assert effect(nothing, 1) is nothing


def test_in_a_dataset_by_seed_epoch_and_index(tone):
    ds = [(tone(400), k) for k in range(4)]
    made = data.RandomTransform(ds, GaussianNoise().on(0), seed=1)
    first = [made[k][0].tolist() for k in range(4)]
    assert len({sample[0] for sample in first}) == 4  # by index
    assert [made[k][0].tolist() for k in (3, 1)] == [first[3], first[1]]
    made.set_epoch(1)
    assert made[0][0].tolist() != first[0]
    made.set_epoch(0)
    assert made[0][0].tolist() == first[0] and made[2][1] == 2
    other = data.RandomTransform(ds, GaussianNoise().on(0), seed=2)
    assert other[0][0].tolist() != first[0]
    named = [{"audio": tone(400), "label": 1}]
    assert data.RandomTransform(named, Normalize().on("audio"))[0]["label"] == 1
    with pytest.raises(data.DataError, match=r"no field 'x': the sample has \['audio', 'label'\]"):
        data.RandomTransform(named, Normalize().on("x"))[0]


def test_an_effect_of_ones_own(tone):
    class Invert(SoundEffect):
        def apply(self, x, generator):
            return -x

    x = tone(50)
    np.testing.assert_array_equal(SoundEffectChain([Invert(), Invert()])(x, 0), x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianNoise(min_snr=5, max_snr=2), r"\[GaussianNoise\] min_snr is 5: it must "
         "be at most max_snr, which is 2"),
        (lambda: GaussianNoise(max_snr=math.nan), "max_snr is nan: it must be finite"),
        (lambda: GaussianNoise(proba=1.5), "proba is 1.5: it must be a probability"),
        (lambda: ReverbEcho(jitter=1.0), "jitter is 1.0: it must be at least 0 and below 1"),
        (lambda: ReverbEcho(first_delay_min=0.0), "first_delay_min is 0.0: it must be finite and"),
        (lambda: ReverbEcho(repeat=-1), "repeat is -1"),
        (lambda: TimeStretch(max_factor=11.0), "max_factor is 11.0: it must be at most 10"),
        (lambda: TimeStretch(sample_rate=0), "sample_rate is 0: it must be 1 Hz or more"),
        (lambda: Amplify(ratio_min=-1.0), "ratio_min is -1.0: it must be finite and at least 0"),
        (lambda: SoundEffectChain([ReverbEcho(), TimeStretch(sample_rate=8000)]),
         r"of effects\[1\], TimeStretch, is 8000 Hz, and of those before it 16000 Hz"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(make, message):
    with pytest.raises(EffectError, match=message):
        make()


def test_bad_samples_and_generators(tone):
    effect, x = Amplify(), tone(10)
    with pytest.raises(ft.DTypeError, match=r"\[Amplify\] samples of int16: give float32, float64"):
        effect(np.zeros(3, np.int16), 0)
    with pytest.raises(ft.ShapeError, match=r"expected \(channels, n\) or \(n,\)"):
        effect(np.zeros((1, 2, 3)), 0)
    with pytest.raises(EffectError, match="samples hold NaN or infinity"):
        effect(np.array([0.0, np.nan]), 0)
    for bad in (None, "0", True, 1.5):
        with pytest.raises(ft.DTypeError, match="give an ft.Generator, or a seed"):
            effect(x, bad)
    for bad in (0.01, 11, math.nan):
        with pytest.raises(ft.ArgumentError, match=r"factor .*: give 0.1 to 10"):
            time_stretch(x, bad)
    with pytest.raises(ft.DTypeError, match=r"effects\[0\] is a str: expected a SoundEffect"):
        SoundEffectChain(["Amplify"])


def test_bad_lists_of_noise(noise_list, write, tmp_path, tone):
    def refused(message, content=None):
        if content is not None:
            noise_list.write_bytes(content)
        with pytest.raises(speech.AudioError, match=message) as caught:
            AdditiveNoise(noise_list)(tone(30_000), 0)
        assert str(noise_list.parent) in str(caught.value)

    refused("line 2: no such file '.*x.wav': correct the line", b"a.wav\nx.wav\n")
    refused("a list of no recordings: give the path of one on each line", b"\n\n")
    refused("unreadable list of recordings", b"\xff\xfe")
    refused("not an audio file that can be decoded", b"list.txt\n")
    write("noise/8.wav", np.zeros(10), 8000)
    noise_list.write_text("a.wav\n" + "8.wav\n" * 500)
    with pytest.raises(speech.AudioError, match="its rate is 8000 Hz and 16000 Hz are needed"):
        AdditiveNoise(noise_list)(tone(30), 0)
    write("noise/0.wav", np.zeros(0))
    refused("a noise of no samples: remove it from the list", b"0.wav\n")
    noise_list.unlink()
    refused("no such list of recordings")
