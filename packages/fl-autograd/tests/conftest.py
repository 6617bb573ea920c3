from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft


@pytest.fixture
def leaf() -> Any:
    """``leaf(values)``: a float64 Variable that requires a gradient."""

    def make(values: Any, dtype: str = "float64") -> ag.Variable:
        return ag.Variable(ft.asarray(np.asarray(values, dtype)), requires_grad=True)

    return make


@pytest.fixture
def normal() -> Any:
    """``normal(*shape)``: a float64 leaf of standard normal values, other ones on every call."""
    rng = np.random.default_rng(0)

    def make(*shape: int) -> ag.Variable:
        return ag.Variable(ft.asarray(rng.standard_normal(shape)), requires_grad=True)

    return make


@pytest.fixture
def close() -> Any:
    """``close(x, values)``: equal up to rounding in float64."""

    def check(x: Any, values: Any, rtol: float = 1e-9, atol: float = 1e-12) -> None:
        np.testing.assert_allclose(np.asarray(x), np.asarray(values), rtol=rtol, atol=atol)

    return check


@pytest.fixture
def leaves_no_cycles() -> Callable[[Callable[[], None]], None]:
    """``leaves_no_cycles(step)``: reference counting frees all that ``step`` makes."""

    def check(step: Callable[[], None]) -> None:
        step()
        gc.collect()
        gc.disable()
        try:
            step()
            assert gc.collect() == 0
        finally:
            gc.enable()

    return check
