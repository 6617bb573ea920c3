"""Updates with row gradients (`fl_autograd.SparseGradient`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_autograd import SparseGradient, no_grad
from fl_nn.optim.precision import ROUNDING, UpdateRule, update_in_float32
from fl_nn.parameter import Parameter


def apply_sparse_update(
    rule: UpdateRule,
    parameter: Parameter,
    grad: SparseGradient,
    state: dict[str, Any],
    group: dict[str, Any],
    start: float = 0.0,
) -> None:
    """Apply an update rule to the rows that `grad` has, with the same rows of the tensors in
    `state` (which begin at `start`), and leave all others as they are. Tables are written in place
    where nobody else holds their values."""
    grad = grad.detach().coalesced()
    rows = grad.indices
    touched = {
        name: ft.gather(value, rows) if isinstance(value, ft.Tensor) else value
        for name, value in state.items()
    }
    new = update_in_float32(
        rule, ft.gather(parameter.tensor, rows), grad.values.tensor, touched, group
    )
    for name, value in touched.items():
        if not isinstance(value, ft.Tensor):
            state[name] = value
            continue
        if name not in state:
            like, first = parameter.tensor, 0.0 if name == ROUNDING else start
            state[name] = ft.full(like.shape, first, value.dtype, like.device, backend=like.backend)
        state[name][rows] = value
    with no_grad():
        parameter[rows] = new


def stored_gradient_values(parameter: Parameter) -> ft.Tensor:
    """All elements of the gradient that may differ from 0: a gradient of rows has each row once
    afterwards, and these are the rows."""
    grad = parameter.grad
    if isinstance(grad, SparseGradient):
        parameter.grad = grad = grad.coalesced()
        return grad.values.tensor
    assert grad is not None
    return grad.tensor


def map_stored_gradient(parameter: Parameter, change: Callable[[ft.Tensor], ft.Tensor]) -> None:
    """Replace the gradient by a function of its values that makes nothing of zeros."""
    values = change(stored_gradient_values(parameter))
    grad = parameter.grad
    parameter.grad = grad.with_values(values) if isinstance(grad, SparseGradient) else values
