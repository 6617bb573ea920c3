"""Batch normalisation by a provider, and by the NumPy backend that asks one."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor import threads
from fl_tensor.backends.providers import BatchNorm, choose

EPS = 1e-5


def normalised(x, mean, variance, weight, bias, axis=1):
    rows = np.moveaxis(x, axis, -1).astype(float)
    found = (rows - mean) / np.sqrt(variance + EPS) * weight + bias
    return np.moveaxis(found, -1, axis)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.fixture
def two_threads():
    before = threads.get_num_threads()
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


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


@pytest.mark.parametrize(
    "shape,axis",
    [
        ((90, 64), 1),
        ((4, 40, 32), -1),
        ((4, 16, 12, 13), 1),
        ((12, 30, 40), 0),
        ((2, 9, 6, 8, 7), 1),
    ],
)
def test_the_numpy_backend_asks(two_threads, served, provider, normal, statistics, shape, axis):
    x, given = normal(*shape), statistics(shape[axis])
    with ft.use("numpy"):
        found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given), axis=axis)
        close(found.numpy(), normalised(x, *given, axis))
        plain = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given[:2]), axis=axis)
        close(plain.numpy(), normalised(x, *given[:2], 1.0, 0.0, axis))
    assert [by for by, _ in served] == [provider] * 2
    assert all("bnorm" in about for _, about in served)


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


def test_channels_that_lie_apart_are_numpys_in_one_thread(served, normal, statistics):
    x, given = normal(4, 16, 12, 13), statistics(16)
    before = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        with ft.use("numpy"):
            found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given))
    finally:
        threads.set_num_threads(before)
    close(found.numpy(), normalised(x, *given))
    assert served == []


def test_little_work_other_dtypes_and_gaps_are_numpys(served, normal, statistics):
    given = statistics(64)
    with ft.use("numpy"):
        gaps = ft.asarray(normal(180, 64))[::2]
        for x in (ft.asarray(normal(9, 64)), ft.asarray(normal(90, 64).astype(float)), gaps):
            these = [ft.asarray(v).astype(x.dtype) for v in given]
            close(ft.batch_norm(x, *these).numpy(), normalised(x.numpy(), *given))
    assert served == []


def test_statistics_that_do_not_fit_are_errors_all_the_same(served, normal, statistics):
    mean, *rest = map(ft.asarray, statistics(64))
    with ft.use("numpy"), pytest.raises(ft.ShapeError, match="mean"):
        ft.batch_norm(ft.asarray(normal(90, 64)), mean[:63], *rest)
    assert served == []


def test_plans_normalise_in_kernels_of_their_own(served, normal, statistics):
    pytest.importorskip("llvmlite", reason="generated kernels take llvmlite")
    x, given = normal(180, 64), statistics(64)
    with ft.use("jit"):
        for _ in range(3):
            found = ft.batch_norm(ft.asarray(x), *map(ft.asarray, given)).numpy()
    close(found, normalised(x, *given))
    assert served == []
