"""Accumulation dtypes: sums over values or steps are at least float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import fl_tensor as ft

A = TypeVar("A", bound=ft.Array)
#: `Optimizer.update`.
Rule = Callable[[ft.Tensor, ft.Tensor, dict[str, Any], dict[str, Any]], ft.Tensor]

#: In the state of a parameter of 16 bits: its master weight minus the parameter, float32.
ROUNDING = "rounding"


def wide_dtype(dtype: ft.DType) -> ft.DType:
    """`dtype`, or float32 where it has less."""
    return ft.float32 if dtype.itemsize < 4 else dtype


def widened(x: A) -> A:
    """`x`, in float32 where it has less."""
    return x.astype(ft.float32) if x.dtype.itemsize < 4 else x


def exactly(
    rule: Rule, value: ft.Tensor, grad: ft.Tensor, state: dict[str, Any], group: dict[str, Any]
) -> ft.Tensor:
    """What an update rule makes of a parameter. One of 16 bits is updated in float32: what rounding
    took from it before is in `state`, and the two together are the master weight, exactly."""
    if value.dtype.itemsize >= 4:
        return rule(value, grad, state, group)
    master = widened(value)
    if ROUNDING in state:
        master = master + state[ROUNDING]
    master = rule(master, widened(grad), state, group)
    rounded = master.astype(value.dtype)
    state[ROUNDING] = master - widened(rounded)
    return rounded
