"""Batch normalisation by a provider, its gradients, and the NumPy backend that asks for both."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor import threads
from fl_tensor.backends.providers import BatchNorm, BatchNormGradient, choose

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
    monkeypatch.setattr(choose, "is_for_everything", lambda: False)
    monkeypatch.setattr(choose, "current", lambda: provider)
    found = []
    monkeypatch.setattr(choose, "watchers", [lambda by, kernel: found.append((by, kernel.about))])
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
    problem = BatchNorm(layout(x), layout(out), EPS, training=True)
    run(problem, x, weight, bias, mean, variance, out)
    for found, expected in zip((mean, variance), statistics_of(x)):
        close(found, expected)
    close(out, normalised(x, *statistics_of(x), weight, bias))

    to_weight, to_bias, to_x = unset(c), unset(c), unset(*shape, order=order)
    problem = BatchNormGradient(layout(x), layout(g), layout(to_x), EPS)
    run(problem, x, g, weight, mean, variance, to_weight, to_bias, to_x)
    for found, expected in zip((to_x, to_weight, to_bias), gradients(g, x, weight)):
        close(found, expected, max(np.abs(expected).max(), 1.0))  # sums of many numbers


def test_statistics_of_numbers_far_from_zero(run, layout, normal, unset):
    """Sums of squares alone would have lost the variance: 1 of 250,000. A mean that is wrong by
    5e-6 of 500 adds 6e-6 to it, and a hundred and fifty additions round by 9e-6 at most."""
    for order in ("C", "last"):
        x = normal(8, 16, 300, order=order) + 500
        out, mean, variance = unset(8, 16, 300, order=order), unset(16), unset(16)
        problem = BatchNorm(layout(x), layout(out), EPS, training=True)
        run(problem, x, np.ones(16, "f"), np.zeros(16, "f"), mean, variance, out)
        exact = statistics_of(x)
        np.testing.assert_allclose(mean, exact[0], rtol=5e-6)
        np.testing.assert_allclose(variance, exact[1], rtol=2e-5)


AXES = pytest.mark.parametrize(
    "shape,axis",
    [
        ((90, 64), 1),
        ((4, 40, 32), -1),
        ((4, 16, 12, 13), 1),
        ((12, 30, 40), 0),
        ((2, 9, 6, 8, 7), 1),
    ],
)


@AXES
def test_the_numpy_backend_asks(two_threads, served, provider, normal, statistics, shape, axis):
    x, given = normal(*shape), statistics(shape[axis])
    with ft.use("numpy"):
        found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given), axis=axis)
        close(found.numpy(), normalised(x, *given, axis))
        plain = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given[:2]), axis=axis)
        close(plain.numpy(), normalised(x, *given[:2], 1.0, 0.0, axis))
    assert [by for by, _ in served] == [provider] * 2
    assert all("bnorm" in about for _, about in served)


@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@AXES
def test_the_numpy_backend_asks_in_training(
    two_threads, served, provider, normal, shape, axis, affine
):
    x, g, c = normal(*shape) * 2 + 1, normal(*shape), shape[axis]
    weight, bias = normal(c), normal(c)
    given = [ft.asarray(v) if affine else None for v in (weight, bias)]
    if not affine:
        weight, bias = 1.0, 0.0
    with ft.use("numpy"):
        y, *statistics = ft.batch_norm_training(ft.asarray(x), *given, axis=axis)
        made = ft.batch_norm_gradient(
            ft.asarray(g), ft.asarray(x), *statistics, given[0], axis=axis
        )
    for found, expected in zip(statistics, statistics_of(x, axis)):
        close(found.numpy(), expected)
    close(y.numpy(), normalised(x, *statistics_of(x, axis), weight, bias, axis))
    for found, expected in zip(made, gradients(g, x, weight, axis)):
        close(found.numpy(), expected)
    assert [by for by, _ in served] == [provider] * 2
    assert all("bnorm" in about for _, about in served)


@pytest.mark.parametrize("order", ["as x", "channels first", "one number"])
def test_a_gradient_may_lie_otherwise_than_x(served, normal, order):
    x = normal(4, 12, 13, 16).transpose(0, 3, 1, 2)
    g = normal(4, 16, 12, 13, order="last" if order == "as x" else "C")
    if order == "one number":
        g = np.broadcast_to(np.float32(0.25), g.shape)
    weight = normal(16)
    with ft.use("numpy"):
        image = ft.permute(ft.asarray(x.transpose(0, 2, 3, 1)), (0, 3, 1, 2))
        statistics = [ft.asarray(v.astype("f")) for v in statistics_of(x)]
        if order == "one number":
            slope = ft.broadcast_to(ft.asarray(np.float32(0.25)), g.shape)
        else:
            slope = ft.permute(ft.asarray(g.transpose(0, 2, 3, 1)), (0, 3, 1, 2))
            slope = slope if order == "as x" else ft.asarray(np.ascontiguousarray(g))
        made = ft.batch_norm_gradient(slope, image, *statistics, ft.asarray(weight))
    for found, expected in zip(made, gradients(g, x, weight)):
        close(found.numpy(), expected)
    assert len(served) == 1 and made[0].numpy().transpose(0, 2, 3, 1).flags.c_contiguous


def test_what_is_not_finite_stays_in_its_channel(two_threads, served, normal):
    for x in (normal(90, 64), normal(4, 64, 9, 5)):
        x[3, 5], x[2, 7], x[1, 9] = np.nan, np.inf, -np.inf
        with ft.use("numpy"):
            y, mean, variance = ft.batch_norm_training(ft.asarray(x))
            slope = ft.batch_norm_gradient(ft.ones(x.shape), ft.asarray(x), mean, variance)[0]
        lost = np.zeros(64, bool)
        lost[[5, 7, 9]] = True
        over = (0, *range(2, x.ndim))
        for found in (y, slope):
            np.testing.assert_array_equal(np.isnan(found.numpy()).all(over), lost)
            np.testing.assert_array_equal(np.isnan(found.numpy()).any(over), lost)
        np.testing.assert_array_equal(np.isnan(variance.numpy()), lost)
    assert len(served) == 4


def test_images_keep_their_channels_last(served, normal, statistics):
    x, given = normal(4, 12, 13, 16), statistics(16)
    with ft.use("numpy"):
        image = ft.permute(ft.asarray(x), (0, 3, 1, 2))
        found = ft.batch_norm(image, *map(ft.asarray, given)).numpy()
    close(found, normalised(x.transpose(0, 3, 1, 2), *given))
    assert len(served) == 1 and found.transpose(0, 2, 3, 1).flags.c_contiguous


def test_nan_stays_where_it_is(served, normal, statistics):
    x, given = normal(90, 64), statistics(64)
    x[3, 5], x[7, 9], x[8, 10] = np.nan, np.inf, -np.inf
    with ft.use("numpy"):
        found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given)).numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(x))
    assert len(served) == 1


def test_one_thread_normalises_what_lies_apart_in_numpy(threads_to, served, normal, statistics):
    x, given = normal(4, 16, 12, 13), statistics(16)
    threads_to(1)
    with ft.use("numpy"):
        found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given))
        close(found.numpy(), normalised(x, *given))
        y, *own = ft.batch_norm_training(ft.asarray(x))
        close(y.numpy(), normalised(x, *statistics_of(x), 1.0, 0.0))
        assert served == []
        made = ft.batch_norm_gradient(y, ft.asarray(x), *own)
    close(made[0].numpy(), gradients(y.numpy(), x, 1.0)[0])
    assert len(served) == 1, "the gradient is worth it"


def test_little_work_other_dtypes_and_gaps_are_numpys(served, normal, statistics):
    given = statistics(64)
    with ft.use("numpy"):
        gaps = ft.asarray(normal(180, 64))[::2]
        for x in (ft.asarray(normal(9, 64)), ft.asarray(normal(90, 64).astype(float)), gaps):
            these = [ft.asarray(v).astype(x.dtype) for v in given]
            close(ft.batch_norm(x, *these).numpy(), normalised(x.numpy(), *given))
            y, *own = ft.batch_norm_training(x, *these[2:])
            close(y.numpy(), normalised(x.numpy(), *statistics_of(x.numpy()), *given[2:]))
            made = ft.batch_norm_gradient(y, x, *own, these[2])
            for found, expected in zip(made, gradients(y.numpy(), x.numpy(), given[2])):
                close(found.numpy(), expected)
    assert served == []


def test_statistics_that_do_not_fit_are_errors_all_the_same(served, normal, statistics):
    mean, *rest = map(ft.asarray, statistics(64))
    with ft.use("numpy"), pytest.raises(ft.ShapeError, match="mean"):
        ft.batch_norm(ft.asarray(normal(90, 64)), mean[:63], *rest)
    assert served == []


def test_gradients_that_do_not_fit_are_errors_all_the_same(served, normal, statistics):
    x, (mean, variance, weight, bias) = normal(90, 64), map(ft.asarray, statistics(64))
    with ft.use("numpy"):
        with pytest.raises(ft.ShapeError, match=r"gradient \(90, 1\): x is \(90, 64\)"):
            ft.batch_norm_gradient(ft.ones((90, 1)), ft.asarray(x), mean, variance)
        with pytest.raises(ft.ShapeError, match="batch_norm_gradient.* variance"):
            ft.batch_norm_gradient(ft.asarray(x), ft.asarray(x), mean, variance[:63])
        with pytest.raises(ft.ShapeError, match="batch_norm_training.* bias"):
            ft.batch_norm_training(ft.asarray(x), weight, bias[:63])
    assert served == []


def test_plans_normalise_in_kernels_of_their_own(served, normal, statistics):
    pytest.importorskip("llvmlite", reason="generated kernels take llvmlite")
    x, given = normal(180, 64), statistics(64)
    with ft.use("jit"):
        for _ in range(3):
            found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given)).numpy()
            y, *own = ft.batch_norm_training(ft.asarray(x))
            slope = ft.batch_norm_gradient(y, ft.asarray(x), *own)[0].numpy()
    close(found, normalised(x, *given))
    close(slope, gradients(y.numpy(), x, 1.0)[0])
    assert served == []
