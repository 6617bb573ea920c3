"""Gradients of functions under NumPy's names: all are compositions of differentiable ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = needs("float64")

PLACES = [0.0, 0.4, 1.5, 2.0]
LABELS = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]])
#: Of x (3, 4) and y (4,), both standard normal.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "abs, fabs, pow": lambda x, y: ft.pow(ft.abs(x), 1.5) * ft.fabs(y),
    "arctan2": lambda x, y: ft.arctan2(x, y),
    "fmod": lambda x, y: ft.fmod(10.0 * x, y),
    "modf": lambda x, y: ft.modf(3.0 * x)[0] * y,
    "ldexp": lambda x, y: ft.ldexp(x, LABELS) * y,
    "logaddexp2": lambda x, y: ft.logaddexp2(x, y),
    "float_power": lambda x, y: ft.float_power(ft.exp(x), y),
    "sinc": lambda x, y: ft.sinc(x) * y,
    "i0": lambda x, y: ft.i0(9.0 * x) * y,
    "unwrap": lambda x, y: ft.unwrap(7.0 * x) * y,
    "vstack": lambda x, y: ft.vstack([x, y]) ** 2,
    "column_stack": lambda x, y: ft.column_stack([y, ft.transpose(x)]) ** 2,
    "dstack, rot90": lambda x, y: ft.dstack([ft.rot90(x), ft.rot90(x)]) ** 2 * y[0],
    "block": lambda x, y: ft.block([[x], [y[None]]]) ** 2,
    "resize": lambda x, y: ft.resize(x, (5, 4)) * y,
    "insert, delete": lambda x, y: ft.insert(ft.delete(x, [1], 0), 1, y, 0) ** 2,
    "r_": lambda x, y: ft.r_[x[0], 0:2, 7.5, y] ** 2,
    "append": lambda x, y: ft.append(x, y) ** 2,
    "ediff1d": lambda x, y: ft.ediff1d(x, y, y[:1]) ** 2,
    "array_split": lambda x, y: ft.array_split(x, 3, 1)[0] * y[0],
    "vander": lambda x, y: ft.vander(y, 4) * x[0],
    "diagflat": lambda x, y: ft.diagflat(y, 1)[:4, 1:] @ ft.transpose(x),
    "put": lambda x, y: ft.put(x, [1, 5, -1], y[:3]) ** 2,
    "put_along_axis": lambda x, y: ft.put_along_axis(x, LABELS[:1] * 2, y[None], 0) ** 2,
    "place": lambda x, y: ft.place(x, LABELS == 1, y) ** 2,
    "putmask": lambda x, y: ft.putmask(x, LABELS == 1, y) ** 2,
    "fill_diagonal": lambda x, y: ft.fill_diagonal(x, y[:3]) ** 2,
    "extract, compress": lambda x, y: ft.extract(LABELS, x) * ft.compress([1, 1], y)[0],
    "select": lambda x, y: ft.select([LABELS == 1, x > 0], [x * y, y**2], 1.0),
    "choose": lambda x, y: ft.choose(LABELS, [x**2, y]),
    "piecewise": lambda x, y: ft.piecewise(x, [x < 0], [ft.square, lambda v: ft.exp(v) * y[0]]),
    "apply_along_axis": lambda x, y: ft.apply_along_axis(lambda v: ft.outer(v, y), 0, x[:, :2]),
    "partition, lexsort": lambda x, y: ft.partition(x, 1) ** 2 * y[ft.lexsort([y.detach()])],
    "cumsum": lambda x, y: ft.cumsum(x) ** 2 * y[0],
    "cumprod": lambda x, y: ft.cumprod(x, 1) * y,
    "nancumsum": lambda x, y: ft.nancumsum(ft.where(LABELS == 1, np.nan, x), 0) * y,
    "ptp": lambda x, y: ft.ptp(x, 0) * y,
    "cov": lambda x, y: ft.cov(x, y),
    "cov, weights": lambda x, y: ft.cov(x, aweights=ft.exp(y), fweights=[1, 2, 1, 3]),
    "corrcoef": lambda x, y: ft.corrcoef(x, y)[:3, 3],
    "histogram2d": lambda x, y: ft.histogram2d(PLACES, PLACES, 2, weights=y**2)[0] * x[0, 0],
    "convolve": lambda x, y: ft.convolve(x[0], y),
    "correlate": lambda x, y: ft.correlate(x[0], y, "same"),
    "gradient": lambda x, y: ft.gradient(x, PLACES, axis=1, edge_order=2) * y,
    "gradient by places": lambda x, y: ft.gradient(x, ft.cumsum(ft.exp(y)), axis=1),
    "interp": lambda x, y: ft.interp(x, ft.cumsum(ft.exp(y)), y),
    "interp, period": lambda x, y: ft.interp(x, PLACES, y, period=3.0),
    "trapezoid": lambda x, y: ft.trapezoid(x, y),
    "polyval": lambda x, y: ft.polyval(y, x),
    "polymul, polydiv": lambda x, y: ft.polymul(x[0], ft.polydiv(y, x[1, :2])[0]),
    "polyder, polyint": lambda x, y: ft.polyder(x[0] * y) * ft.polyint(y, k=x[0, 0])[:3],
    "poly": lambda x, y: ft.poly(y),
    "polyfit": lambda x, y: ft.polyfit(PLACES, x[0], 2, w=ft.exp(y)),
    "vdot": lambda x, y: ft.vdot(x[:2], x[1:]) * y,
    "matvec, vecmat": lambda x, y: ft.vecmat(ft.matvec(x, y), x),
    "methods": lambda x, y: x.ravel().cumsum().abs() * x.dot(y).pow(2)[0] + x.trace() * x.ptp(),
}


CASES = [pytest.param(x, marks=needs("linalg") if x == "polyfit" else ()) for x in FUNCTIONS]


@pytest.mark.parametrize("name", CASES)
def test_gradients(normal: Any, name: str) -> None:
    ag.check_grads(FUNCTIONS[name], [normal(3, 4), normal(4)], order=2)


def test_the_second_derivative_of_a_bessel_function_at_zero(leaf: Any) -> None:
    """I0(x) = 1 + x^2 / 4 + ..."""
    found = ag.hessian(ft.i0, leaf(0.0))
    assert np.allclose(np.asarray(found), 0.5)


@pytest.mark.parametrize("x", [0.0, 1e-9, 1e-3, 0.25])
def test_the_second_derivative_of_sinc_does_not_cancel(leaf: Any, x: float) -> None:
    """sinc(x) = 1 - a^2 / 6 + a^4 / 120 - ..., where a = pi x."""
    wanted = np.pi**2 * sum(
        (-1) ** k * (np.pi * x) ** (2 * k - 2) / ((2 * k + 1) * math.factorial(2 * k - 2))
        for k in range(1, 12)
    )
    assert ag.hessian(ft.sinc, leaf(x)).item() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("x", "y", "slope"), [(4.0, 2.0, -2.0), (-4.0, 2.0, 2.0), (0.0, 3.0, 0.0)])
def test_remainders_that_are_zero_have_slopes(leaf: Any, x: float, y: float, slope: float) -> None:
    assert [g.item() for g in ag.grad(ft.fmod, argnums=(0, 1))(leaf(x), leaf(y))] == [1, slope]
    assert ag.grad(lambda x: ft.modf(x)[0])(leaf(x)).item() == 1


@pytest.mark.parametrize("x", [20.0, -20.0])
def test_the_slope_of_a_bessel_function_where_its_series_meet(leaf: Any, x: float) -> None:
    """I0' = I1 and I0'' = I0 - I1 / x, by SciPy."""
    assert ag.grad(ft.i0)(leaf(x)).item() == pytest.approx(math.copysign(42454973.385127775, x))
    assert ag.hessian(ft.i0, leaf(x)).item() == pytest.approx(41435533.890297145)


def test_the_spacing_of_numbers_has_no_gradient(leaf: Any) -> None:
    with pytest.raises(ag.GradError, match="no gradient"):
        ft.spacing(leaf(1.5)).backward()


def test_a_window_of_samples_is_trained(leaf: Any) -> None:
    """A matched filter is found by the gradient of ``correlate``."""
    signal = ft.hamming(9, dtype="float64")
    weight = leaf(np.zeros(9))
    for _ in range(50):
        loss = ((ft.correlate(signal, weight) - 1.0) ** 2).sum()
        weight.grad = None
        loss.backward()
        weight = leaf(weight.tensor - 0.1 * weight.grad)
    assert abs(loss.item()) < 1e-6
    share = np.asarray(weight.tensor) / np.asarray(signal)
    assert np.allclose(share, share[0])
