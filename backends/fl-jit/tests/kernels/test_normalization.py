"""Batch normalisation by a provider, its gradients, and the NumPy backend that asks for both."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit.kernels import BatchNorm, BatchNormGradient, registry
from fl_tensor import threads

EPS = 1e-5


def normalised(x, mean, variance, weight, bias, axis=1):
    rows = np.moveaxis(x, axis, -1).astype(float)
    found = (rows - mean) / np.sqrt(variance + EPS) * weight + bias
    return np.moveaxis(found, -1, axis)


def statistics_of(x, axis=1):
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]).astype(float)
    return rows.mean(0), rows.var(0)


def gradients(gradient, x, weight, axis=1):
    """Of x, weight and bias in training: what is left of w g / s without its mean and without what
    goes along with the normalised x."""
    g, rows = (np.moveaxis(v, axis, -1).astype(float) for v in (gradient, x))
    over, (mean, variance) = tuple(range(x.ndim - 1)), statistics_of(x, axis)
    unit = (rows - mean) / np.sqrt(variance + EPS)
    to_x = g - g.mean(over) - unit * (g * unit).mean(over)
    to_x = to_x * weight / np.sqrt(variance + EPS)
    return np.moveaxis(to_x, -1, axis), (g * unit).sum(over), g.sum(over)


def close(found, expected, scale=1.0):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * scale)


@pytest.fixture
def threads_to():
    """``threads_to(count)``, until the test ends."""
    before = threads.get_num_threads()
    yield threads.set_num_threads
    threads.set_num_threads(before)


@pytest.fixture
def two_threads(threads_to):
    threads_to(2)


@pytest.fixture
def statistics(normal):
    """``statistics(channels)``: mean, variance, weight, bias."""
    return lambda c: (normal(c), normal(c) ** 2 + 0.5, normal(c), normal(c))


@pytest.fixture
def served(provider, monkeypatch):
    """The provider serves the backend; who computed what, as watchers see it."""
    monkeypatch.setattr(registry, "is_for_everything", lambda: False)
    monkeypatch.setattr(registry, "active_library", lambda: provider)
    found = []
    monkeypatch.setattr(registry, "watchers", [lambda by, kernel: found.append((by, kernel.about))])
    return found


@pytest.mark.parametrize("order", ["C", "last"])
@pytest.mark.parametrize("shape", [(4, 6), (3, 5, 7), (2, 17, 20)])
def test_given_statistics(run, layout, normal, unset, statistics, shape, order):
    x, out = normal(*shape, order=order), unset(*shape, order=order)
    mean, variance, weight, bias = statistics(shape[1])
    run(BatchNorm(layout(x), layout(out), EPS), x, weight, bias, mean, variance, out)
    close(out, normalised(x.swapaxes(1, -1), mean, variance, weight, bias, -1).swapaxes(1, -1))


@pytest.mark.parametrize("order", ["C", "last"])
@pytest.mark.parametrize("shape", [(4, 6), (3, 5, 7), (2, 17, 20)])
def test_training_and_its_gradients(run, layout, normal, unset, shape, order):
    x, g = normal(*shape, order=order) * 2 + 1, normal(*shape, order=order)
    c = shape[1]
    weight, bias, mean, variance = normal(c), normal(c), unset(c), unset(c)
    out = unset(*shape, order=order)
    descriptor = BatchNorm(layout(x), layout(out), EPS, training=True)
    run(descriptor, x, weight, bias, mean, variance, out)
    for found, expected in zip((mean, variance), statistics_of(x)):
        close(found, expected)
    close(out, normalised(x, *statistics_of(x), weight, bias))

    to_weight, to_bias, to_x = unset(c), unset(c), unset(*shape, order=order)
    descriptor = BatchNormGradient(layout(x), layout(g), layout(to_x), EPS)
    run(descriptor, x, g, weight, mean, variance, to_weight, to_bias, to_x)
    for found, expected in zip((to_x, to_weight, to_bias), gradients(g, x, weight)):
        close(found, expected, max(np.abs(expected).max(), 1.0))  # sums of many numbers


def test_statistics_of_numbers_far_from_zero(run, layout, normal, unset):
    """Sums of squares alone would have lost the variance: 1 of 250,000. A mean that is wrong by
    5e-6 of 500 adds 6e-6 to it, and a hundred and fifty additions round by 9e-6 at most."""
    for order in ("C", "last"):
        x = normal(8, 16, 300, order=order) + 500
        out, mean, variance = unset(8, 16, 300, order=order), unset(16), unset(16)
        descriptor = BatchNorm(layout(x), layout(out), EPS, training=True)
        run(descriptor, x, np.ones(16, "f"), np.zeros(16, "f"), mean, variance, out)
        exact = statistics_of(x)
        np.testing.assert_allclose(mean, exact[0], rtol=5e-6)
        np.testing.assert_allclose(variance, exact[1], rtol=2e-5)


def test_plans_normalise_in_kernels_of_their_own(served, normal, statistics):
    x, given = normal(180, 64), statistics(64)
    with ft.use("jit"):
        for _ in range(3):
            found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given)).numpy()
            y, *own = ft.batch_norm_training(ft.asarray(x))
            slope = ft.batch_norm_gradient(y, ft.asarray(x), *own)[0].numpy()
    close(found, normalised(x, *given))
    close(slope, gradients(y.numpy(), x, 1.0)[0])
    assert served == []
