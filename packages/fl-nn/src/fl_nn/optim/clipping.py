"""Gradient clipping by norm and by value."""

from __future__ import annotations

from collections.abc import Iterable

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_memory.tags import GRADIENT
from fl_nn.causes import in_update
from fl_nn.errors import ModuleError, TrainingError
from fl_nn.optim.precision import to_float32
from fl_nn.optim.sparse import map_stored_gradient, stored_gradient_values
from fl_nn.optim.vectors import cut, join, remember, small_groups
from fl_nn.parameter import Parameter
from fl_tensor.annotations import checked


@checked
@in_update(GRADIENT)
def clip_grad_norm_(
    parameters: Parameter | Iterable[Parameter],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> ft.Tensor:
    """Scale all gradients by max_norm / (norm + 1e-6) where their norm, taken over all of them
    together, is larger than `max_norm`; the norm as it was, a tensor (), at least float32.

    norm_type            2, or any other that `ft.norm` knows; `inf` is the largest magnitude
    error_if_nonfinite   raise TrainingError, and change nothing, when the norm is inf or NaN

    Parameters without gradient are passed over, and gradients of rows stay what they are. As
    `torch.nn.utils.clip_grad_norm_`; gradients in 16 bits are measured and scaled in float32.
    """
    if not max_norm >= 0.0:
        raise ModuleError(f"[clip_grad_norm_] max_norm={max_norm}: give a number of at least 0")
    trained = _with_gradient(parameters)
    groups = _joined(trained)
    norms = [ft.norm(to_float32(grad), ord=norm_type) for _, grad in groups if grad.size]
    if not norms:
        return ft.zeros(())
    total = ft.norm(ft.stack(norms), ord=norm_type)
    if error_if_nonfinite and not ft.isfinite(total).item():
        raise TrainingError(
            f"[clip_grad_norm_] the norm of the gradients is {total.item()}: lower the learning "
            "rate, or look for values that are not finite in this batch"
        )
    scale = ft.minimum(max_norm / (total + 1e-6), 1.0)
    for members, grad in groups:
        _replace(members, (to_float32(grad) * scale).astype(grad.dtype))
    return total


@checked
@in_update(GRADIENT)
def clip_grad_value_(parameters: Parameter | Iterable[Parameter], clip_value: float) -> None:
    """Bring every element of the gradients into [-clip_value, clip_value]. As
    `torch.nn.utils.clip_grad_value_`."""
    if not clip_value >= 0.0:
        raise ModuleError(f"[clip_grad_value_] clip_value={clip_value}: give a number >= 0")
    for members, grad in _joined(_with_gradient(parameters)):
        _replace(members, ft.clip(grad, -clip_value, clip_value))


def _with_gradient(parameters: Parameter | Iterable[Parameter]) -> list[Parameter]:
    given = [parameters] if isinstance(parameters, Parameter) else parameters
    return [parameter for parameter in given if parameter.grad is not None]


def _joined(parameters: list[Parameter]) -> list[tuple[list[Parameter], ft.Tensor]]:
    # Parameters whose gradients make one vector, and that; a gradient of rows is alone.
    sparse = [p for p in parameters if isinstance(p.grad, SparseGradient)]
    found = [([p], stored_gradient_values(p)) for p in sparse]
    dense = [(p, p.grad) for p in parameters if not isinstance(p.grad, SparseGradient)]
    grads = [grad for _, grad in dense if grad is not None]
    for numbers in small_groups(grads):
        found.append(([dense[i][0] for i in numbers], join([grads[i] for i in numbers])))
    return found


def _replace(parameters: list[Parameter], grad: ft.Tensor) -> None:
    if len(parameters) == 1:
        map_stored_gradient(parameters[0], lambda _: grad)
        return
    for parameter, piece in zip(parameters, cut(grad, [p.shape for p in parameters])):
        parameter.grad = piece
    remember([p.grad for p in parameters if p.grad is not None], grad)
