"""SpecAugment on spectra and on waveforms: how many masks, how wide, what stands there, what is
left alone."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError


def generator(seed=0):
    return ft.Generator(seed)


def runs(marked):
    """Lengths of the runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(int)))
    return list(edges[1::2] - edges[::2])


# ---- spectra -------------------------------------------------------------------------------------


def masked(layer, shape):
    """Which (frequencies, steps) of each sample are masked as a whole; every element is 0 or as it
    was."""
    x = ft.ones(shape)
    y = layer(x).numpy()
    assert set(np.unique(y)) <= {0.0, 1.0}
    y = y.reshape(shape[0], -1, *shape[-2:])[:, 0]
    rows, columns = (y == 0).all(2), (y == 0).all(1)
    assert ((y == 0) == (rows[:, :, None] | columns[:, None, :])).all()
    return rows, columns


def test_masks_are_as_many_and_as_wide_as_asked_for():
    layer = nn.SpecAugment(0, 5, 2, 9, 1.0, 3, generator=generator())
    rows, columns = masked(layer, (400, 40, 90))
    assert all(len(runs(r)) <= 2 and sum(runs(r)) <= 10 for r in rows)
    assert all(len(runs(c)) <= 3 and sum(runs(c)) <= 27 for c in columns)
    assert max(len(runs(r)) for r in rows) == 2 and max(len(runs(c)) for c in columns) == 3


def test_widths_and_places_are_uniform_up_to_the_last():
    layer = nn.SpecAugment(0, 4, 1, 0, 1.0, 0, generator=generator())
    rows, columns = masked(layer, (5000, 10, 3))
    assert not columns.any()
    widths = np.bincount([sum(runs(r)) for r in rows], minlength=5)
    assert len(widths) == 5 and (abs(widths / 5000 - 0.2) < 0.03).all()
    starts = np.bincount([np.argmax(r) for r in rows if r.sum() == 4], minlength=7)
    assert len(starts) == 7 and (abs(starts / starts.sum() - 1 / 7) < 0.05).all()


def test_a_share_of_the_steps_bounds_masks_of_time():
    layer = nn.SpecAugment(0, 0, 0, 100, 0.2, 1, generator=generator())
    _, columns = masked(layer, (300, 2, 50))
    assert max(c.sum() for c in columns) == 10


def test_masks_wider_than_the_input_fit_it():
    layer = nn.SpecAugment(0, 50, 1, 50, 1.0, 1, generator=generator())
    rows, columns = masked(layer, (200, 3, 4))
    assert max(r.sum() for r in rows) == 3 and max(c.sum() for c in columns) == 4


def test_the_mean_of_each_sample_takes_the_place():
    layer = nn.SpecAugment(0, 8, 1, 8, 1.0, 1, "mean", generator=generator())
    x = ft.randn((20, 16, 30), generator(1), dtype=ft.float64)
    y, x = layer(x).numpy(), x.numpy()
    changed = y != x
    assert 0 < changed.mean() < 1
    for one, other, where in zip(y, x, changed):
        np.testing.assert_allclose(one[where], other.mean(), rtol=1e-12)


def test_samples_differ_and_channels_share():
    layer = nn.SpecAugment(3, generator=generator())
    x = ft.broadcast_to(ft.randn((1, 1, 80, 100), generator(1)), (2, 3, 80, 100))
    y = layer(x).numpy()
    assert (y[:, 0] == y[:, 1]).all() and (y[:, 0] == y[:, 2]).all()
    assert (y[0] != y[1]).any()


@pytest.mark.parametrize("make", [nn.SpecAugment, nn.RawWavSpecAugment])
def test_a_seed_gives_the_same_masks_and_evaluation_none(make):
    x = ft.randn((2, 8, 1000) if make is nn.SpecAugment else (2, 1000))
    layer, twin = (make(generator=generator(7)) for _ in range(2))
    first = layer(x).tolist()
    assert first == twin(x).tolist() != layer(x).tolist()
    assert layer.eval()(x) is x


LENGTHS = [60, 30, 2]


def test_masks_keep_to_the_steps_of_a_padded_sample():
    layer = nn.SpecAugment(0, 2, 1, 100, 0.5, 1, generator=generator())
    seen = []
    for _ in range(200):
        y = layer(ft.ones((3, 4, 60)), lengths=LENGTHS).numpy()
        columns = (y == 0).all(1)
        for n, one, masked in zip(LENGTHS, y, columns):
            assert (one[:, n:] == 1).all() and masked.sum() <= n // 2
        seen.append(columns.sum(1))
    assert np.max(seen, 0).tolist() == [30, 15, 1]


def test_the_mean_of_a_padded_sample_is_that_of_its_own_steps():
    layer = nn.SpecAugment(0, 4, 1, 9, 1.0, 1, "mean", generator=generator())
    x = ft.randn((3, 4, 60), generator(1), dtype=ft.float64)
    y, x = layer(x, lengths=LENGTHS).numpy(), x.numpy()
    assert (y != x).any()
    for n, one, other in zip(LENGTHS, y, x):
        np.testing.assert_allclose(one[one != other], other[:, :n].mean(), rtol=1e-9)


def test_padded_samples_are_warped_within_their_steps():
    ramp = ft.broadcast_to(ft.arange(60, dtype=ft.float64), (3, 1, 60))
    layer = nn.SpecAugment(10, 0, 0, 0, 1.0, 0, generator=generator())
    furthest = []
    for _ in range(50):
        y = layer(ramp, lengths=LENGTHS).numpy()[:, 0]
        assert (np.diff(y) > 0).all()
        for n, one in zip(LENGTHS, y):
            np.testing.assert_allclose(one[n - 1 :], np.arange(n - 1, 60), atol=1e-4)
        furthest.append(abs(y - np.arange(60)).max(1))
    assert np.max(furthest, 0)[1] > 5 and np.max(furthest, 0)[2] == 0


def test_containers_tell_lengths():
    model = nn.Sequential(nn.SpecAugment(0, 0, 0, 50, 1.0, 5, generator=generator()))
    y = model(ft.ones((2, 3, 50)), lengths=[50, 5]).numpy()
    assert (y[1, :, 5:] == 1).all() and (y == 0).any()


# ---- warping -------------------------------------------------------------------------------------


def sources(reach, steps, count=200):
    """From which time each step of the result comes: what a ramp becomes."""
    ramp = ft.broadcast_to(ft.arange(steps, dtype=ft.float64), (count, 1, steps))
    return nn.SpecAugment(reach, 0, 0, 0, 1.0, 0, generator=generator())(ramp).numpy()[:, 0]


def test_time_is_stretched_on_one_side_of_a_step_and_shrunk_on_the_other():
    moved = sources(10, 100)
    assert (abs(moved[:, 0]) < 1e-4).all() and (abs(moved[:, -1] - 99) < 1e-4).all()
    slopes = np.diff(moved)
    assert (slopes > 0).all()
    for slope in slopes:
        left, right = slope[0], slope[-1]
        # Two slopes, and between them at most the one step in which the break lies.
        other = (abs(slope - left) > 1e-4) & (abs(slope - right) > 1e-4)
        assert other.sum() <= 2 and (left - 1) * (right - 1) <= 0
    shift = abs(moved - np.arange(100)).max(1)
    assert shift.max() <= 10.001 and shift.max() > 9 and shift.min() < 1


def test_short_inputs_are_warped_less():
    assert abs(sources(10, 8) - np.arange(8)).max() <= 2.001
    assert (sources(10, 3) == np.arange(3)).all()


def test_gradients_pass_warp_and_masks():
    x = ft.randn((2, 4, 12), generator(1), dtype=ft.float64)

    def function(v):
        return nn.SpecAugment(3, 1, 1, 2, 1.0, 1, "mean", generator=generator(3))(v)

    ag.check_grads(function, [ag.Variable(x)])


# ---- waveforms -----------------------------------------------------------------------------------

RATE = 16000


def response(seed, **settings):
    """What the layer makes of each frequency: the spectrum of its answer to an impulse."""
    layer = nn.RawWavSpecAugment(
        **{"frequency_masks": 1, "time_masks": 0, **settings}, generator=generator(seed)
    )
    n = 16384
    x = np.zeros((1, n))
    x[0, n // 2] = 1.0
    spectrum = np.fft.rfft(layer.to(ft.float64)(ft.asarray(x)).numpy()[0])
    # The filter is symmetric: apart from the delay the response is real.
    return (spectrum * np.exp(1j * np.pi * np.arange(n // 2 + 1))).real, layer


@pytest.mark.fl_heavy
@pytest.mark.parametrize("seed", range(6))
def test_a_band_is_gone_and_the_rest_untouched(seed):
    gain, layer = response(seed, frequency_width=40)
    hertz = np.linspace(0, RATE / 2, len(gain))
    inside = gain < 0.5
    if not inside.any():
        pytest.skip("a band of width 0 was drawn")
    (width,) = runs(inside)
    low, high = hertz[inside][0], hertz[inside][-1]
    edges = np.array(layer.edges)
    gaps = np.diff(edges)
    first, last = (np.argmin(abs(edges - f)) for f in (low, high))
    assert abs(edges[first] - low) < 4 and abs(edges[last] - high) < 4  # at the cut-offs, half
    assert 1 <= last - first <= 40
    slope_low, slope_high = (gaps[min(max(i, 1), 79) - 1] for i in (first, last))
    deep = (hertz > low + slope_low) & (hertz < high - slope_high)
    outside = (hertz < low - slope_low) | (hertz > high + slope_high)
    if first == 0:
        deep |= hertz < high - slope_high
    if last == 80:
        deep |= hertz > low + slope_low
    assert abs(gain[deep]).max(initial=0.0) < 1e-3  # 60 dB
    assert abs(gain[outside] - 1).max(initial=0.0) < 1e-3


@pytest.mark.fl_heavy
def test_tones_in_the_band_vanish_and_others_stay():
    t = np.arange(RATE) / RATE
    tones = [np.sin(2 * np.pi * f * t) for f in (1000, 4000, 6000)]
    layer = nn.RawWavSpecAugment(
        20, 1, time_masks=0, bands=20, low=3000, high=5000, generator=generator(3)
    )
    x = ft.asarray(np.stack([sum(tones)] * 12), ft.float32)
    y = layer(x).numpy()[:, 4000:-4000]  # without the ends, where tones begin and end
    full = np.stack([tone[4000:-4000] for tone in tones])
    heights = np.linalg.lstsq(full.T, y.T, rcond=None)[0]
    assert abs(heights[[0, 2]] - 1).max() < 1e-3
    assert abs(heights[1]).min() < 1e-3 and abs(heights[1]).max() > 0.99


@pytest.mark.fl_heavy
def test_all_bands_together_are_everything_and_several_masks_add_up():
    x = ft.randn((20, 2000), generator(1))
    layer = nn.RawWavSpecAugment(1, 1, time_masks=0, bands=1, generator=generator(2))
    left = np.abs(layer(x).numpy()).max(1)
    assert (left < 1e-5).any() and (left > 1).any()
    narrow = (response(5, frequency_masks=m, frequency_width=9)[0] for m in (1, 4))
    one, four = ((abs(gain) < 0.5).sum() for gain in narrow)
    assert four > one > 0


def test_stretches_of_a_waveform_are_masked():
    layer = nn.RawWavSpecAugment(0, 0, 50, 1.0, 1, generator=generator())
    y = layer(ft.ones((100, 2, 400))).numpy()
    assert (y[:, 0] == y[:, 1]).all() and set(np.unique(y)) == {0.0, 1.0}
    lengths = [sum(runs(one[0] == 0)) for one in y]
    assert max(lengths) <= 50 and max(lengths) > 40
    short = nn.RawWavSpecAugment(0, 0, 50, 0.1, 1, generator=generator())
    assert (short(ft.ones((100, 100))).numpy() == 0).sum(1).max() == 10


def test_a_padded_waveform_keeps_its_padding():
    layer = nn.RawWavSpecAugment(40, 2, 100, 0.5, 1, generator=generator(1))
    x = ft.randn((2, 400), generator(2))
    y, x = layer(x, lengths=nn.Durations([1.0, 0.25])).numpy(), x.numpy()
    assert (y[1, 100:] == x[1, 100:]).all() and (y[1, :100] != x[1, :100]).mean() > 0.5
    assert (y[1, :100] == 0).sum() <= 50


@pytest.mark.fl_heavy
def test_kernels_are_no_longer_than_allowed():
    assert nn.RawWavSpecAugment(max_kernel=301).filters.shape == (81, 301)
    gain, _ = response(1, frequency_width=40, max_kernel=301)
    assert abs(gain).min() < 1e-3  # less steep, and as deep


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.SpecAugment(-1), "time_warp=-1: give a whole number"),
        (lambda: nn.SpecAugment(time_share=1.5), "a share lies in"),
        (lambda: nn.SpecAugment(fill="noise"), "'zero' and 'mean'"),
        (lambda: nn.RawWavSpecAugment(low=5000, high=4000), "low < high"),
        (lambda: nn.RawWavSpecAugment(high=9000), "rate / 2 = 8000"),
        (lambda: nn.RawWavSpecAugment(max_kernel=2), "max_kernel=2: at least 3"),
    ],
)
def test_settings_without_sense_are_refused(make, words):
    with pytest.raises(ModuleError, match=words):
        make()


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ft.ShapeError, match=r"expected \(N, F, T\) or \(N, C, F, T\)"):
        nn.SpecAugment()(ft.ones((3, 4)))
    with pytest.raises(ft.ShapeError, match=r"expected \(N, T\) or \(N, C, T\)"):
        nn.RawWavSpecAugment()(ft.ones((4,)))
