"""`normalize` and `local_normalize` against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_speech.features import local_normalize, normalize
from fl_speech.frontend import Frontend
from fl_speech.recipe import Recipe

LENGTHS = [9, 1, 4]


def values():
    return np.random.default_rng(0).normal(size=(3, 9, 4)) * 5 + 100


def scaled(frames, around, per_feature, threshold):
    axis = 0 if per_feature else None
    deviation = around.std(axis=axis)
    divisor = np.where(deviation > threshold, deviation, 1.0)
    return (frames - around.mean(axis=axis)) / divisor


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 4.5])
def test_recordings_are_normalised(per_feature, threshold):
    x, options = values(), {"per_feature": per_feature, "threshold": threshold}
    found = normalize(ft.asarray(x), **options).numpy()
    for row, v in zip(found, x, strict=True):
        np.testing.assert_allclose(row, scaled(v, v, per_feature, threshold), atol=1e-10)
    found = normalize(ft.asarray(x), ft.asarray(LENGTHS), **options).numpy()
    for row, v, n in zip(found, x, LENGTHS, strict=True):
        expected = scaled(v[:n], v[:n], per_feature, threshold)
        np.testing.assert_allclose(row[:n], expected, atol=1e-10)
        assert not row[n:].any()


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize(("left", "right"), [(2, 1), (0, 3), (50, 50)])
def test_frames_are_normalised_by_those_around_them(per_feature, left, right):
    x = values()
    for lengths in (None, LENGTHS):
        found = local_normalize(
            ft.asarray(x),
            left,
            right,
            None if lengths is None else ft.asarray(lengths),
            per_feature=per_feature,
            threshold=1e-6,
        ).numpy()
        for row, v, n in zip(found, x, lengths or [9] * 3, strict=True):
            assert not row[n:].any()
            for t in range(n):
                around = v[max(t - left, 0) : min(t + right + 1, n)]
                expected = scaled(v[t], around, per_feature, 1e-6)
                np.testing.assert_allclose(row[t], expected, atol=1e-6)


def test_a_long_recording_far_from_zero_keeps_its_precision():
    x = (np.random.default_rng(1).normal(size=(5000, 2)) + 300).astype(np.float32)
    found = local_normalize(ft.asarray(x), 20, 20)
    assert found.dtype == ft.float32
    around = x[4000 - 20 : 4021].astype(np.float64)
    expected = (x[4000] - around.mean()) / around.std()
    np.testing.assert_allclose(found.numpy()[4000], expected, atol=1e-4)


@pytest.mark.parametrize("per_feature", [False, True])
def test_gradients_and_constants(per_feature):
    lengths = ft.asarray([5, 3])
    options = {"per_feature": per_feature}
    x = np.random.default_rng(2).normal(size=(2, 5, 3))
    ag.check_grads(lambda v: normalize(v, lengths, **options), [x])
    ag.check_grads(lambda v: local_normalize(v, 2, 2, lengths, **options), [x], rtol=1e-5)
    still = ag.Variable(ft.ones((2, 5, 3)), requires_grad=True)
    found = normalize(still, **options)
    assert not found.numpy().any()
    (found * found + found).sum().backward()
    assert np.isfinite(still.grad.numpy()).all()
    assert normalize(ft.zeros((0, 3))).shape == local_normalize(ft.zeros((0, 3)), 1, 1).shape


def test_wrong_arguments_are_refused():
    x = ft.zeros((2, 5, 3))
    with pytest.raises(ft.ShapeError, match=r"lengths \(3,\) for x \(2, 5, 3\)"):
        normalize(x, ft.asarray([1, 2, 3]))
    with pytest.raises(ft.ShapeError, match="at least 2 axes"):
        local_normalize(ft.zeros((5,)), 1, 1)
    with pytest.raises(ft.ArgumentError, match="left -1, right 0"):
        local_normalize(x, -1, 0)


@pytest.mark.parametrize(("kind", "axis"), [("utterance", None), ("per_feature", 0)])
def test_a_recipe_normalises_recordings_or_their_features(kind, axis):
    recipe = Recipe(sample_rate=8000, filters=20, normalise=kind)
    samples = np.random.default_rng(0).normal(0, 0.1, 4000) * np.linspace(0.1, 1, 4000)
    found = np.asarray(Frontend(recipe)(ft.asarray(samples)))
    np.testing.assert_allclose(found.mean(axis), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis), 1, atol=1e-5)
    plain = np.asarray(Frontend(recipe.changed(normalise="none"))(ft.asarray(samples)))
    assert np.abs(plain.mean(0)).min() > 1
