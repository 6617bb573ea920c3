"""Windows of attention against loops over samples, steps and frames."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import (
    MedianWindow,
    SoftPretrainWindow,
    SoftWindow,
    StepWindow,
    make_window,
)

LENGTHS, FRAMES, STEPS = [40, 25, 4], 40, 9
TARGETS = [9, 4, 1]
OUT = -10000.0


def mask(window, steps=range(STEPS), previous=None, targets=TARGETS) -> np.ndarray:
    found = window(
        ft.asarray(list(steps), ft.int64),
        FRAMES,
        ft.asarray(LENGTHS, ft.float32),
        None if targets is None else ft.asarray(targets, ft.int64),
        None if previous is None else ft.asarray(previous),
    )
    assert found.shape == (len(LENGTHS), len(steps), FRAMES)
    return found.numpy()


def each(function, steps=range(STEPS)) -> np.ndarray:
    return np.array(
        [[[function(b, u, t) for t in range(FRAMES)] for u in steps] for b in range(len(LENGTHS))]
    )


def rounded(x: float) -> int:
    return math.floor(x + 0.5)


def test_step():
    def expected(b, u, t):
        start = max(0, rounded(min(LENGTHS[b] - 5.0, 1 + 2.5 * u)))
        return 0.0 if start <= t < rounded(6 + 5.0 * u) else OUT

    np.testing.assert_array_equal(mask(StepWindow(1, 6, 2.5, 5.0)), each(expected))


def test_step_has_the_defaults_of_the_original():
    # From frame 3 u to 50 + 10 u.
    found = mask(StepWindow())
    assert (found[0, 8, :24] == OUT).all() and (found[0, 8, 24:] == 0).all()


def test_soft():
    def expected(b, u, t):
        centre = rounded(min(3 + u * 4.0, LENGTHS[b] - 4.0))
        return max(-((t - centre) ** 2) / (2 * 0.2**2), OUT)

    np.testing.assert_allclose(mask(SoftWindow(0.2, 4.0, 3)), each(expected), rtol=1e-5)


def test_soft_pretrain_follows_the_diagonal():
    def expected(b, u, t):
        return max(-((t - u * LENGTHS[b] / TARGETS[b]) ** 2) / (2 * 3.0**2), OUT)

    np.testing.assert_allclose(mask(SoftPretrainWindow(3.0)), each(expected), rtol=1e-4, atol=1e-4)


def test_soft_pretrain_without_targets_goes_on_by_a_frame():
    found = mask(SoftPretrainWindow(3.0), targets=None)
    assert (found.argmax(-1) == np.arange(STEPS)).all()


def test_median_is_around_the_median_of_the_last_weights():
    previous = np.zeros((3, 1, FRAMES), np.float32)
    previous[0, 0, [10, 20, 35]] = 0.3, 0.3, 0.4  # passes 0.5 at frame 20
    previous[1, 0, 24] = 1.0  # at the end: the window of 7 ends with the sample
    previous[2, 0, 1] = 1.0  # at the beginning; the sample is shorter than the window
    found = mask(MedianWindow(3, 4), [5], previous)
    starts = [17, 18, 0]

    def expected(b, u, t):
        return 0.0 if starts[b] <= t < starts[b] + 7 else OUT

    np.testing.assert_array_equal(found, each(expected, [5]))


def test_median_of_heads_is_that_of_their_mean():
    previous = np.zeros((3, 2, FRAMES), np.float32)
    previous[:, 0, 10], previous[:, 1, 2] = 0.9, 0.9
    previous[:, 0, 2], previous[:, 1, 0] = 0.1, 0.1
    assert (mask(MedianWindow(1, 1), [5], previous)[0, 0] == 0).nonzero()[0].tolist() == [1, 2]


def test_median_begins_at_the_beginning():
    found = mask(MedianWindow(3, 4), [0])
    assert (found[:, 0, :7] == 0).all() and (found[:, 0, 7:] == OUT).all()


@pytest.mark.parametrize("window", [StepWindow(0, 5), SoftWindow(), SoftPretrainWindow()])
def test_all_steps_at_once_are_the_single_ones(window):
    together = mask(window)
    for u in range(STEPS):
        np.testing.assert_array_equal(mask(window, [u])[:, 0], together[:, u])


def test_names_of_the_original():
    assert make_window("none") is None
    assert make_window("median", 3, 4).left == 3
    assert make_window("step", 1, 6, 2.5, 5.0).max_rate == 5.0
    assert make_window("soft").std == 5.0
    assert isinstance(make_window("softpretrain", 2.0), SoftPretrainWindow)
    with pytest.raises(ft.ArgumentError, match="'softpretrain'"):
        make_window("hard")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MedianWindow(0, 3), "both at least 1"),
        (lambda: StepWindow(5, 5), "starts are"),
        (lambda: StepWindow(min_rate=11.0), "rates"),
        (lambda: SoftWindow(0.0), "above 0"),
        (lambda: SoftWindow(rate=math.inf), "finite"),
        (lambda: SoftPretrainWindow(-1.0), "above 0"),
    ],
)
def test_settings_that_do_not_fit(make, message):
    with pytest.raises(nn.ModuleError, match=message):
        make()


def test_arguments_that_do_not_fit():
    with pytest.raises(ft.ShapeError, match="one step in a call"):
        mask(MedianWindow())
    with pytest.raises(ft.ShapeError, match="previous"):
        mask(MedianWindow(), [1], np.zeros((3, FRAMES), np.float32))
    with pytest.raises(ft.ShapeError, match="target_lengths"):
        mask(StepWindow(), targets=[1, 2])
    with pytest.raises(ft.DTypeError, match="floating"):
        StepWindow()(ft.asarray([0]), FRAMES, ft.asarray(LENGTHS))
