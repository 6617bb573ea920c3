"""``lgamma``, ``digamma``, ``polygamma``, ``erfinv``, ``xlogy`` against SciPy and by identities."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special

import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = needs("float64")
INF, NAN = np.inf, np.nan
DTYPES = ["float32", "float64"]


def arguments(dtype, sign=1.0):
    rng = np.random.default_rng(5)
    beside = [n + s * 10.0**-k for n in (1, 2) for s in (-1, 1) for k in range(1, 7)]
    if sign < 0:
        beside = rng.uniform(0.0, 30.0, 40)
    values = [*rng.uniform(1e-3, 12.0, 200), *10.0 ** rng.uniform(-12, 9, 60), *beside]
    return (sign * np.asarray(values)).astype(dtype)


def exact(function, x):
    with mpmath.workdps(40):
        return np.array([float(function(mpmath.mpf(float(v)))) for v in x])


def errors(got, want, scale=0.0):
    """In epsilons of the dtype, relative to the value or to ``scale``, whichever is larger."""
    eps = np.finfo(str(got.dtype)).eps
    return np.abs(np.asarray(got, np.float64) - want) / np.maximum(np.abs(want), scale) / eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_lgamma_above_zero_is_accurate_beside_its_zeros_too(dtype):
    x = arguments(dtype)
    x = x[(x != 1) & (x != 2)]
    assert errors(ft.lgamma(ft.asarray(x)), exact(mpmath.loggamma, x)).max() < 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_lgamma_below_zero(dtype):
    x = arguments(dtype, -1.0)
    x = x[x != np.round(x)]
    want = exact(lambda v: mpmath.re(mpmath.loggamma(v)), x)
    assert errors(ft.lgamma(ft.asarray(x)), want, 1.0).max() < 8


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_digamma(dtype, sign):
    x = arguments(dtype, sign)
    x = x[(x > 0) | (x != np.round(x))]
    assert errors(ft.digamma(ft.asarray(x)), exact(mpmath.digamma, x), 1.0).max() < 8


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 30, 60])
@pytest.mark.parametrize("dtype", DTYPES)
def test_polygamma(n, dtype):
    rng = np.random.default_rng(1)
    # Sums with the steps of the shift are rounded most beside powers of two.
    beside = 2.0 ** np.repeat(np.arange(4, 12), 10) - rng.uniform(0.5, 9.5, 80)
    x = np.concatenate([arguments(dtype)[::6], np.geomspace(12.0, 4e5, 40), beside]).astype(dtype)
    want = exact(lambda v: mpmath.polygamma(n, v), x)
    held = np.abs(want) <= np.finfo(dtype).max
    found = ft.polygamma(n, ft.asarray(x))
    assert np.isinf(np.asarray(found)[~held]).all()
    held &= np.abs(want) >= np.finfo(dtype).smallest_normal
    assert held.sum() > 20
    assert errors(found[held], want[held]).max() < 10


@pytest.mark.parametrize("dtype", DTYPES)
def test_erfinv(dtype):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-1, 1, 60), 10.0 ** rng.uniform(-30, 0, 30)])
    x = np.concatenate([x, 1 - 10.0 ** rng.uniform(-15, -1, 40)]).astype(dtype)
    x = x[(np.abs(x) < 1) & (x != 0)]
    found = ft.erfinv(ft.asarray(x))
    assert errors(found, exact(mpmath.erfinv, x)).max() < 4
    np.testing.assert_allclose(ft.erfinv(ft.asarray(-x)), -np.asarray(found), rtol=0)


def test_random_arguments_agree_with_scipy():
    x = np.random.default_rng(0).uniform(-20.0, 40.0, 5000)
    np.testing.assert_allclose(ft.lgamma(x), special.gammaln(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ft.digamma(x), special.psi(x), rtol=1e-10, atol=1e-13)
    x = np.abs(x) + 0.01
    for n in range(6):
        np.testing.assert_allclose(
            ft.polygamma(n, x), special.polygamma(n, x), rtol=1e-12, atol=1e-13
        )
    y = np.random.default_rng(1).uniform(-1.0, 1.0, 5000)
    np.testing.assert_allclose(ft.erfinv(y), special.erfinv(y), rtol=1e-13)


def test_special_points_of_the_gamma_family():
    poles = ft.asarray([0.0, -1.0, -2.0, -30.0], dtype="float64")
    assert ft.lgamma(poles).tolist() == [INF] * 4
    assert ft.lgamma([1.0, 2.0]).tolist() == [0.0, 0.0]
    assert ft.lgamma([INF, -INF]).tolist() == [INF, INF]
    assert ft.digamma([0.0, -0.0, INF]).tolist() == [-INF, INF, INF]
    assert ft.isnan(ft.digamma([-1.0, -5.0, -INF, NAN])).all()
    assert ft.polygamma(1, poles).tolist() == [INF] * 4
    assert ft.polygamma(1, [INF]).tolist() == [0.0]
    assert ft.isnan(ft.polygamma(2, [-1.0, -2.0, NAN])).all()
    assert ft.isnan(ft.lgamma([NAN])).all()


def test_recurrence_and_reflection():
    x = np.random.default_rng(3).uniform(-6.0, 6.0, 500)
    x = ft.asarray(x[np.abs(x - np.round(x)) > 0.02])
    step = ft.log(ft.absolute(x))
    np.testing.assert_allclose(ft.lgamma(x + 1.0), ft.lgamma(x) + step, atol=1e-12)
    np.testing.assert_allclose(ft.digamma(x + 1.0), ft.digamma(x) + 1.0 / x, atol=1e-10)
    for n, factor in ((1, -1.0), (2, 2.0), (3, -6.0)):
        found = ft.polygamma(n, x) + factor * x ** float(-n - 1)
        np.testing.assert_allclose(ft.polygamma(n, x + 1.0), found, rtol=1e-9, atol=1e-9)
    sine = ft.sin(np.pi * x)
    both = np.pi**2 / (sine * sine)
    np.testing.assert_allclose(ft.polygamma(1, x) + ft.polygamma(1, 1.0 - x), both, rtol=1e-9)


def test_orders_of_polygamma():
    assert np.allclose(ft.polygamma(0, [0.5, 3.0]), ft.digamma([0.5, 3.0]))
    for n in (-1, 61):
        with pytest.raises(ft.ArgumentError, match=f"n {n}: expected an order from 0 to 60"):
            ft.polygamma(n, [1.0])


def test_erfinv_is_the_inverse_and_nan_outside():
    y = ft.linspace(-5.0, 5.0, 201, dtype="float64")
    np.testing.assert_allclose(ft.erfinv(ft.erf(y))[40:-40], y[40:-40], rtol=1e-7)
    assert ft.erfinv([1.0, -1.0, 0.0]).tolist() == [INF, -INF, 0.0]
    assert ft.isnan(ft.erfinv([1.0001, -2.0, INF, NAN])).all()


def test_xlogy_is_zero_at_zero():
    x, y = (
        a.ravel() for a in np.meshgrid([0.0, 0.5, -1.0, NAN, INF], [0.0, 1.0, 2.0, -1.0, NAN, INF])
    )
    np.testing.assert_array_equal(ft.xlogy(x, y), special.xlogy(x, y))
    assert ft.xlogy(ft.zeros((2, 1)), ft.ones(3)).shape == (2, 3)
    assert ft.xlogy(2, 1).dtype is ft.float32


@needs("float16")
def test_half_precision_is_rounded_once():
    x = ft.asarray([0.3, 1.7, 5.5, 20.0], dtype="float16")
    for function in (ft.lgamma, ft.digamma, lambda v: ft.polygamma(1, v)):
        wanted = np.asarray(function(x.astype("float32"))).astype("float16")
        assert function(x).dtype is ft.float16 and (np.asarray(function(x)) == wanted).all()


def test_integers_become_floats():
    assert ft.lgamma([1, 2, 5]).dtype is ft.float32
    np.testing.assert_allclose(ft.lgamma([5, 11]), np.log([24.0, 3628800.0]), rtol=1e-6)
