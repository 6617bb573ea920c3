"""Gradients of public functions that reduce what they are given to operations of the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = needs("float64")


@pytest.mark.defect("V7")
@pytest.mark.parametrize(
    ("shape", "places", "axis"),
    [((2, 3), (1, 2), 1), ((1, 3), (2, 2), 1), ((3, 1), (2, 4), 0), ((2, 1, 3), (1, 4, 5), 2)],
)
def test_take_along_axis_sums_gradients_over_broadcast_axes(
    normal: Any, shape: Any, places: Any, axis: int
) -> None:
    indices = np.random.default_rng(0).integers(0, shape[axis], places)
    x = normal(*shape)
    ag.check_grads(lambda v: ft.take_along_axis(v, indices, axis), [x], order=2)
    ft.take_along_axis(x, indices, axis).sum().backward()
    assert x.grad.shape == shape


@pytest.mark.defect("V10")
@pytest.mark.parametrize("function", [ft.quantile, ft.nanquantile])
@pytest.mark.parametrize("q", [0.3, [0.1, 0.55, 0.9], [[0.23], [0.71]]])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, True), ((0, 2), False)])
def test_quantiles_by_q(
    normal: Any, leaf: Any, function: Any, q: Any, axis: Any, keepdims: bool
) -> None:
    x, share = normal(2, 4, 3), leaf(q)
    ag.check_grads(lambda v, s: function(v, s, axis, keepdims), [x, share], order=2)
    assert np.allclose(function(x, share, axis, keepdims), function(x.tensor, q, axis, keepdims))


@pytest.mark.defect("V10")
def test_percentile_by_q(leaf: Any) -> None:
    x, q = leaf([1.0, 2.0, 4.0, 8.0]), leaf(50.0)
    y = ft.percentile(x, q)
    y.backward()
    assert y.item() == 3.0 and np.isclose(q.grad.item(), 0.06)
    assert x.grad.tolist() == [0.0, 0.5, 0.5, 0.0]


@pytest.mark.defect("V10")
def test_nanquantile_by_q_counts_each_row_for_itself(leaf: Any) -> None:
    x = leaf([[np.nan, 1.0, 3.0, np.nan], [0.0, 1.0, 5.0, np.nan], [np.nan] * 4])
    q = leaf(0.25)
    y = ft.nanquantile(x, q, axis=1)
    assert y.tolist()[:2] == [1.5, 0.5] and np.isnan(y[2].item())
    y[:2].sum().backward()
    assert q.grad.item() == 2.0 + 2.0
    assert x.grad.tolist()[:2] == [[0.0, 0.75, 0.25, 0.0], [0.5, 0.5, 0.0, 0.0]]


@pytest.mark.fl_heavy
def test_the_place_of_a_quantile_is_in_a_row_too_long_for_float32(leaf: Any) -> None:
    x = ft.zeros(2**24 + 4)  # 2^24 + 3, the place of the last element, is rounded up
    for function in (ft.quantile, ft.nanquantile):
        for q in (1.0, ag.Variable(ft.asarray(1.0, "float32"), requires_grad=True)):
            assert function(x, q).item() == 0.0


def test_a_quantile_over_nan_is_nan_and_shares_are_checked(leaf: Any) -> None:
    q = leaf([0.5, 0.1])
    assert np.isnan(ft.quantile(ft.asarray([1.0, np.nan, 2.0]), q).numpy()).all()
    for function in (ft.quantile, ft.nanquantile):
        with pytest.raises(ft.ArgumentError, match=r"q 1.5: expected a number in \[0, 1\]"):
            function([1.0, 2.0], leaf(1.5))
    assert ft.quantile(leaf([[]]), q, axis=1).shape == (2, 1)


@needs("float16")
@pytest.mark.defect("V10")
def test_the_dtype_is_that_of_x(leaf: Any) -> None:
    q = leaf([0.5, 0.25])
    for dtype in ("float32", "float16", "float64"):
        x = ag.Variable(ft.asarray([1.0, 3.0, 2.0], dtype=dtype), requires_grad=True)
        y = ft.quantile(x, q)
        assert y.dtype is x.dtype and y.tolist() == [2.0, 1.5]
        y.sum().backward()
        assert x.grad.dtype is x.dtype
    assert q.grad.dtype is q.dtype


@pytest.mark.parametrize("method", ["lower", "higher", "midpoint", "nearest"])
def test_other_methods_are_piecewise_constant_in_q(leaf: Any, method: str) -> None:
    x, q = leaf([1.0, 2.0, 4.0]), leaf(0.3)
    ft.quantile(x, q, method=method).backward()
    assert q.grad is None and x.grad is not None


@pytest.mark.defect("item 7")
def test_negative_widths_of_pad(normal: Any) -> None:
    x = normal(3, 5)
    for mode in ("constant", "reflect"):
        ag.check_grads(lambda v, m=mode: ft.pad(v, ((-1, 1), (2, -2)), m), [x], order=2)


@pytest.mark.defect("item 7")
def test_round_to_decimals_has_no_gradient(normal: Any) -> None:
    for decimals in (0, 2, -1):
        assert not ft.round(normal(4), decimals=decimals).requires_grad


@pytest.mark.defect("V11")
def test_no_differences_pass_the_gradient(normal: Any) -> None:
    x, end = normal(3), normal()
    ft.diff(x, 0, prepend=end).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0] and end.grad is None


@pytest.mark.defect("item 7")
def test_rows_are_searched_for_variables(leaf: Any) -> None:
    found = ft.searchsorted(leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([[1.5], [5.0]]))
    assert found.tolist() == [[1], [2]] and not found.requires_grad
