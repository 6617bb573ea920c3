"""Floor division and remainder of infinities, zeros and NaN, as in Python and NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend

ag = pytest.importorskip("fl_autograd", reason="gradients are those of fl-autograd")

inf, nan = math.inf, math.nan
VALUES = [0.0, -0.0, 1.5, -1.5, 2.0, -2.0, 1e30, -1e30, inf, -inf, nan]
PAIRS = list(itertools.product(VALUES, repeat=2))
FLOATING = ["float16", "bfloat16", "float32", "float64"]


@pytest.fixture(params=["numpy", "jit", "kernels"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both backends, and ``jit`` where it defers and compiles everything."""
    used: Any = request.param
    if used == "kernels":
        used = JitBackend()
        used.smallest, used.plans.policy.patience = 1, 0
    with ft.use(used):
        yield


def _pairs(dtype: str) -> tuple[Any, Any]:
    x, y = zip(*PAIRS)
    return ft.asarray(x, dtype=dtype), ft.asarray(y, dtype=dtype)


def _wide(x: Any) -> Any:
    """The values in NumPy, which has no bfloat16."""
    return x.astype("float64" if x.dtype == "float64" else "float32").numpy()


def _by_numpy(function: Any, x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return _wide(ft.asarray(function(_wide(x), _wide(y)), dtype=x.dtype))


@pytest.mark.defect("N16")
@pytest.mark.parametrize("dtype", FLOATING)
def test_floor_division_is_that_of_numpy(dtype: str) -> None:
    x, y = _pairs(dtype)
    wanted = _by_numpy(np.floor_divide, x, y)
    known = ~np.isnan(wanted)
    for found in (_wide(x // y), _wide(ft.floor_divide(x, y))):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


@pytest.mark.parametrize("dtype", FLOATING)
def test_remainders_are_those_of_numpy(dtype: str) -> None:
    x, y = _pairs(dtype)
    np.testing.assert_array_equal(_wide(x % y), _by_numpy(np.remainder, x, y))


@pytest.mark.defect("N16")
def test_of_numbers_they_are_those_of_python() -> None:
    for a, b in PAIRS:
        if b == 0:
            continue  # ZeroDivisionError there
        x = ft.asarray(a, dtype="float64")
        found = (x // b).item(), (x % b).item()
        np.testing.assert_array_equal(found, divmod(a, b), f"{a}, {b}")


@pytest.mark.defect("N16")
def test_the_gradient_of_a_remainder_counts_the_same_floor() -> None:
    y = ag.Variable(ft.asarray([inf, -inf, 2.0, -2.0], dtype="float64"), requires_grad=True)
    ft.remainder(ft.asarray([-1.5, 1.5, 5.0, 5.0], dtype="float64"), y).sum().backward()
    np.testing.assert_array_equal(y.grad.numpy(), [1.0, 1.0, -2.0, 3.0])
