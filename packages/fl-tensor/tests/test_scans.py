"""Running extremes with positions, and distances between rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import distance

import fl_tensor as ft
from fl_tensor.testing import needs


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((4, 7), 1), ((5, 2, 3), -2), ((0, 3), 1)])
def test_cummax_and_cummin_give_values_and_their_positions(dtype, shape, axis):
    x = np.random.default_rng(0).integers(0, 5, shape).astype(dtype)
    for function, ufunc in ((ft.cummax, np.maximum), (ft.cummin, np.minimum)):
        values, indices = function(ft.asarray(x), axis)
        assert str(values.dtype) == dtype and indices.dtype is ft.int64
        np.testing.assert_array_equal(values, ufunc.accumulate(x, axis))
        np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(indices), axis), values)


def test_the_latest_of_equal_elements_and_of_nan_counts():
    assert ft.cummax([1.0, 3.0, 3.0, 2.0, 3.0]).indices.tolist() == [0, 1, 2, 2, 4]
    found = ft.cummin([2.0, np.nan, 1.0, np.nan, 0.0])
    assert found.indices.tolist() == [0, 1, 1, 3, 3]
    assert ft.isnan(found.values[1:]).all()


def test_logcumsumexp_is_the_cumulative_logsumexp():
    x = ft.asarray([[1000.0, 1000.0, -np.inf], [0.0, 1.0, 2.0]])
    np.testing.assert_allclose(ft.logcumsumexp(x, 1), ft.cumulative_logsumexp(x, 1))


@needs("float64")
@pytest.mark.parametrize(
    ("p", "metric"), [(0, "hamming"), (1, "cityblock"), (2, "euclidean"), (np.inf, "chebyshev")]
)
def test_cdist(p, metric):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((6, 4)), rng.standard_normal((5, 4))
    y[0] = x[0]
    want = distance.cdist(x, y, metric) * (4 if p == 0 else 1)
    np.testing.assert_allclose(ft.cdist(x, y, p), want, rtol=1e-12)
    want = distance.cdist(x, y, "minkowski", p=3.5)
    np.testing.assert_allclose(ft.cdist(x, y, 3.5), want, rtol=1e-12)


@needs("float64")
def test_cdist_by_matmul_and_over_batches():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((3, 1, 6, 4)), rng.standard_normal((2, 5, 4))
    found = ft.cdist(x, y)
    assert found.shape == (3, 2, 6, 5)
    np.testing.assert_allclose(found[1, 1], distance.cdist(x[1, 0], y[1]))
    np.testing.assert_allclose(ft.cdist(x, y, by_matmul=True), found, atol=1e-12)
    assert ft.cdist(x, x, by_matmul=True)[0, 0, 0, 0].item() < 1e-7


def test_cdist_by_matmul_shows_what_is_not_finite():
    x = ft.asarray([[1.0, np.nan], [np.inf, 1.0], [3e25, 1.0], [1.0, 2.0]], dtype="float32")
    found = ft.cdist(x, x, by_matmul=True).numpy()
    assert not np.isfinite(found[:3]).any() and not np.isfinite(found[:, :3]).any()
    assert np.isnan(found[0]).all() and found[3, 3] == 0


@needs("float16")
def test_cdist_by_matmul_adds_squares_of_half_precision_in_float32():
    x = ft.asarray([[300.0, 400.0], [0.0, 0.0]], dtype="float16")
    assert ft.cdist(x, x, by_matmul=True).tolist() == [[0.0, 500.0], [500.0, 0.0]]


def test_refused_distances():
    with pytest.raises(ft.ShapeError, match=r"x \(2, 3\) and y \(2, 4\): expected rows of one len"):
        ft.cdist(ft.ones((2, 3)), ft.ones((2, 4)))
    with pytest.raises(ft.ArgumentError, match="p -1"):
        ft.cdist(ft.ones((2, 3)), ft.ones((2, 3)), -1)
    with pytest.raises(ft.ArgumentError, match="by_matmul is for p = 2"):
        ft.cdist(ft.ones((2, 3)), ft.ones((2, 3)), 1, by_matmul=True)
