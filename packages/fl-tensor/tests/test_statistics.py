"""Statistics as users call them, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft

nan = math.nan
METHODS = ["linear", "lower", "higher", "midpoint", "nearest"]
X = np.random.default_rng(3).permutation(60).reshape(3, 4, 5) / 8
HOLED = np.where(X > 5, nan, X)


def close(found, wanted):
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.numpy(), wanted, 1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [None, 1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_quantiles_as_numpy(method, axis, keepdims):
    for q in (0.5, [0.0, 0.3, 0.77, 1.0], [[0.1], [0.25]]):
        if np.ndim(q) == 2 and (keepdims or isinstance(axis, tuple)):
            # NumPy does not put all axes of q first then
            continue
        options = {"axis": axis, "keepdims": keepdims, "method": method}
        close(ft.quantile(X, q, **options), np.quantile(X, q, **options))
        close(ft.percentile(X, np.multiply(q, 100), **options), np.quantile(X, q, **options))
        if axis != ():
            close(ft.nanquantile(HOLED, q, **options), np.nanquantile(HOLED, q, **options))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", range(1, 8))
def test_every_place_between_the_elements(method, n):
    x = np.arange(n, dtype=float)
    q = np.arange(33) / 32
    close(ft.quantile(x, q, method=method), np.quantile(x, q, method=method))
    padded = np.append(x, nan)
    close(ft.nanquantile(padded, q, method=method), np.quantile(x, q, method=method))


def test_medians_as_numpy():
    close(ft.median(X, 1), np.median(X, 1))
    close(ft.median(X), np.median(X))
    close(ft.nanmedian(HOLED, (1, 2), True), np.nanmedian(HOLED, (1, 2), keepdims=True))
    assert math.isnan(ft.median([1.0, nan]).item())
    assert math.isnan(ft.median(ft.zeros(0)).item())
    assert math.isnan(ft.nanmedian([nan, nan]).item())
    assert ft.median([math.inf, math.inf]).item() == math.inf
    assert ft.median([1, 2]).dtype is ft.float32


def test_nanquantile_counts_exactly_in_half_precision():
    if ft.float16 not in ft.current_backend().dtypes:
        pytest.skip("no float16")
    x = ft.cast(ft.arange(5000) % 2, "float16")
    assert ft.nanquantile(x, 0.75).item() == 1.0
    assert ft.nanmedian(x[:4999]).item() == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ft.quantile(X, 1.5), "q 1.5: expected a number in"),
        (lambda: ft.percentile(X, -1), "expected a number in"),
        (lambda: ft.quantile(X, 0.5, method="cubic"), "method 'cubic': expected one of linear"),
        (lambda: ft.quantile(X, "half"), "expected a number"),
        (lambda: ft.average(X, 1, [1.0, 2.0]), r"weights \(2,\): expected the shape of x or that"),
        (lambda: ft.nanmax(ft.zeros(0)), "nothing to choose from"),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ft.FlError, match=words):
        call()


@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"]
)
@pytest.mark.parametrize("axis", [None, 0, (1, 2)])
def test_reductions_without_nan_as_numpy(name, axis):
    wanted = getattr(np, name)(HOLED, axis=axis, keepdims=True)
    close(getattr(ft, name)(HOLED, axis, True), wanted)


def test_positions_without_nan():
    assert ft.nanargmax([nan, -math.inf, nan]).item() == 1
    assert ft.nanargmin([[nan, 2.0], [1.0, nan]], axis=0).tolist() == [1, 0]


def test_average_as_numpy():
    weights = np.linspace(1, 2, 60).reshape(3, 4, 5)
    close(ft.average(X, (0, 2), weights), np.average(X, (0, 2), weights))
    close(ft.average(X, 1, [1.0, 2.0, 3.0, 4.0]), np.average(X, 1, [1, 2, 3, 4]))
    close(ft.average(X), np.average(X))


def test_sums_in_another_dtype():
    x = ft.asarray([200, 100], dtype="uint8")
    assert ft.sum(x).dtype is ft.int64
    assert (ft.sum(x, dtype="uint8").item(), ft.sum(x, dtype="uint8").dtype) == (44, ft.uint8)
    assert ft.prod(x, dtype=ft.float64).dtype is ft.float64
    assert x.sum(dtype="float32").item() == 300.0
    assert ft.sum(ft.asarray([0.75, 0.75]), dtype="int32").item() == 0


def test_running_results_with_a_first_one():
    x = [[1, 2], [3, 4]]
    assert ft.cumulative_sum(x, 1, include_initial=True).tolist() == [[0, 1, 3], [0, 3, 7]]
    assert ft.cumulative_prod(x, 0, include_initial=True).tolist() == [[1, 1], [1, 2], [3, 8]]
    assert ft.cumulative_sum(ft.asarray([100, 100], dtype="int8"), dtype="int8").tolist() == [
        100,
        -56,
    ]
    assert ft.cumulative_sum(ft.zeros((0,)), include_initial=True).tolist() == [0]


def test_running_extremes_as_numpy():
    x = [[3.0, 1.0, 4.0, nan, 5.0]]
    np.testing.assert_array_equal(ft.cumulative_max(x).numpy(), np.maximum.accumulate(x, 1))
    np.testing.assert_array_equal(ft.cumulative_min(x).numpy(), np.minimum.accumulate(x, 1))
    close(ft.cumulative_logsumexp(X, 1), np.logaddexp.accumulate(X, 1))


# ---- norms ------------------------------------------------------------------------------------


@pytest.mark.defect("N11")
@pytest.mark.parametrize("second", [1, None, np.inf, "fro", (0, 1)])
def test_a_norm_refuses_a_second_position(second):
    with pytest.raises(ft.ArgumentError, match=r"\[norm\] .*norm\(x, ord=...\) or norm\(x, axis="):
        ft.norm(ft.ones((2, 3)), second)


@pytest.mark.parametrize("order", [1, 2, 3, np.inf, -np.inf, 0])
@pytest.mark.parametrize("axis", [0, 1])
def test_norms_by_name_are_those_of_numpy(order, axis):
    x = np.random.default_rng(0).standard_normal((3, 4))
    found = ft.norm(ft.asarray(x), axis=axis, ord=order, keepdims=True)
    wanted = np.linalg.norm(x, order, axis, keepdims=True)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    assert ft.norm(ft.asarray(x), ord=order).shape == ()
