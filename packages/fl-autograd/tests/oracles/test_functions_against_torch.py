"""Public functions that read their arguments first, against PyTorch: values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

torch = pytest.importorskip("torch")
F = torch.nn.functional


def agree(
    ours: Callable[..., Any], theirs: Callable[..., Any], inputs: Sequence[Any], rtol: float = 1e-10
) -> None:
    xs = [ag.Variable(ft.asarray(a), requires_grad=True) for a in inputs]
    ts = [torch.tensor(a, requires_grad=True) for a in inputs]
    y, z = ours(*xs), theirs(*ts)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=rtol, atol=1e-12)
    weights = np.cos(np.arange(y.size)).reshape(y.shape).astype(inputs[0].dtype)
    found = ag.grad(y, xs, ft.asarray(weights), allow_unused=True)
    wanted = torch.autograd.grad(z, ts, torch.tensor(weights), allow_unused=True)
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=1e-12)


def normal(*shape: int) -> Any:
    return np.random.default_rng([3, *shape]).standard_normal(shape)


@pytest.mark.defect("V7")
@pytest.mark.parametrize(
    ("shape", "places", "axis"),
    [((2, 3), (1, 2), 1), ((1, 3), (2, 2), 1), ((3, 1), (2, 4), 0), ((2, 1, 3), (1, 4, 5), 2)],
)
def test_take_along_axis(shape: Any, places: Any, axis: int) -> None:
    indices = np.random.default_rng(0).integers(0, shape[axis], places)
    agree(
        lambda x: ft.take_along_axis(x, indices, axis),
        lambda x: torch.take_along_dim(x, torch.tensor(indices), axis),
        [normal(*shape)],
    )


@pytest.mark.defect("V10")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("q", [0.5, 0.3, [0.0, 0.25, 0.5, 0.8, 1.0]])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 5, 2)])
def test_quantiles(name: str, q: Any, shape: Any, dtype: str) -> None:
    x, share = normal(*shape).astype(dtype), np.asarray(q, dtype)
    if name == "nanquantile":
        x.flat[1] = np.nan
    rtol = 1e-10 if dtype == "float64" else 2e-5
    for axis, keepdims in ((None, False), (0, True), (-1, False)):
        agree(
            lambda v, s, a=axis, k=keepdims: getattr(ft, name)(v, s, a, k),
            lambda v, s, a=axis, k=keepdims: getattr(torch, name)(v, s, a, k),
            [x, share],
            rtol,
        )


@pytest.mark.parametrize("method", ["lower", "higher", "midpoint", "nearest"])
def test_quantiles_that_are_piecewise_constant_in_q(method: str) -> None:
    agree(
        lambda x, q: ft.quantile(x, q, 1, method=method),
        lambda x, q: torch.quantile(x, q, 1, interpolation=method),
        [normal(3, 6), np.asarray([0.3, 0.55])],
    )


@pytest.mark.defect("item 7")
@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_to_decimals(decimals: int, dtype: str) -> None:
    x = (normal(200) * 100.0).astype(dtype)
    x[:8] = [0.125, 0.375, -0.5, 2.5, 5.0, 15.0, 25.0, 250.0]
    found, wanted = ft.round(x, decimals=decimals), torch.round(torch.tensor(x), decimals=decimals)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


@pytest.mark.defect("item 7")
@pytest.mark.parametrize("widths", [((-1, 2), (1, -2)), ((-1, -1), (0, 0)), ((2, 1), (-2, -3))])
def test_negative_pad(widths: Any) -> None:
    flat = [n for pair in reversed(widths) for n in pair]
    agree(
        lambda x: ft.pad(x, widths, value=1.5), lambda x: F.pad(x, flat, value=1.5), [normal(4, 5)]
    )


@pytest.mark.defect("item 7")
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("lead", [(3,), (2, 3)])
def test_searchsorted(right: bool, lead: Any) -> None:
    rng = np.random.default_rng(0)
    rows, values = rng.integers(0, 5, (*lead, 9)), rng.integers(-1, 6, (*lead, 4))
    order = np.argsort(rows, -1)
    side = "right" if right else "left"
    found = ft.searchsorted(rows, values, side, sorter=order)
    wanted = torch.searchsorted(
        torch.tensor(rows), torch.tensor(values), side=side, sorter=torch.tensor(order)
    )
    assert found.tolist() == wanted.tolist()


@pytest.mark.defect("V11")
def test_no_differences() -> None:
    x = normal(3, 4)
    found = ft.diff(x, 0, prepend=x[:, :1], append=x[:, :2])
    t = torch.tensor(x)
    assert found.tolist() == torch.diff(t, 0, prepend=t[:, :1], append=t[:, :2]).tolist()


@pytest.mark.defect("V19")
def test_one_hot() -> None:
    assert ft.one_hot([2, 0], 3).tolist() == F.one_hot(torch.tensor([2, 0]), 3).tolist()
    with pytest.raises(RuntimeError):
        F.one_hot(torch.tensor(9), 3)
    with pytest.raises(ft.IndexingError):
        ft.one_hot(9, 3)
