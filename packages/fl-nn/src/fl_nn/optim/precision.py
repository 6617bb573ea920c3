"""Accumulation dtypes: sums over values or steps are at least float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import fl_tensor as ft

A = TypeVar("A", bound=ft.Array)
#: `Optimizer.update`.
UpdateRule = Callable[[ft.Tensor, ft.Tensor, dict[str, Any], dict[str, Any]], ft.Tensor]

#: In the state of a parameter of 16 bits: its master weight minus the parameter, float32.
ROUNDING = "rounding"


def accumulation_dtype(dtype: ft.DType) -> ft.DType:
    """`dtype`, or float32 where it has less."""
    return ft.float32 if dtype.itemsize < 4 else dtype


def to_float32(x: A) -> A:
    """`x`, in float32 where it has less."""
    return x.astype(ft.float32) if x.dtype.itemsize < 4 else x


def update_in_float32(
    rule: UpdateRule,
    value: ft.Tensor,
    grad: ft.Tensor,
    state: dict[str, Any],
    group: dict[str, Any],
    condition: ft.Tensor | None = None,
) -> ft.Tensor:
    """What an update rule makes of a parameter. One of 16 bits is updated in float32: what rounding
    took from it before is in `state`, and the two together are the master weight, exactly. Where a
    `condition`, one bool, is false, value and tensors of the state stay."""
    before = {} if condition is None else dict(state)
    master, narrow = to_float32(value), value.dtype.itemsize < 4
    if narrow and ROUNDING in state:
        master = master + state[ROUNDING]
    new = rule(master, to_float32(grad), state, group)
    if narrow:
        master, new = new, new.astype(value.dtype)
        state[ROUNDING] = master - to_float32(new)
    if condition is None:
        return new
    for name, old in before.items():
        if isinstance(old, ft.Tensor) and state[name] is not old:
            state[name] = ft.where(condition, state[name], old)
    return ft.where(condition, new, value)
