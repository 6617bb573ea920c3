"""Gradient accumulation: one step from the gradients of several batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_memory.tags import GRADIENT
from fl_nn.causes import in_update
from fl_nn.errors import ModuleError, StateDictError
from fl_nn.optim.loss_scaling import DynamicLossScaler
from fl_nn.optim.optimizer import Optimizer
from fl_nn.optim.sparse import map_stored_gradient
from fl_nn.parameter import Parameter
from fl_nn.settings import COUNT, is_number
from fl_nn.values import are_tensors, like
from fl_tensor.annotations import Checked


class GradientAccumulation(Checked):
    """Batches too large for the memory, in parts:

        accumulation = nn.GradientAccumulation(optimizer, every=4)
        for x, y in batches:
            accumulation.backward(nn.mse(model(x), y), weight=len(x))
            accumulation.step()
        accumulation.flush()

    The step is along the mean gradient, weighted by `weight`: with the number of samples, it is the
    gradient of the mean over all samples, whatever the sizes of the parts.

    every         how many parts make a step
    before_step   called when the mean gradients are in place, to clip them, say
    scaler        scales the loss of every part; where it has to skip, the parts are forgotten

    Its state, which checkpoints can keep, has the gradients of a step that is not complete.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        every: int,
        before_step: Callable[[], Any] | None = None,
        scaler: DynamicLossScaler | None = None,
    ) -> None:
        if not COUNT.fits(every):
            raise ModuleError(f"[GradientAccumulation] every={every!r}: give {COUNT.words}")
        self.optimizer, self.every, self.before_step = optimizer, every, before_step
        self.scaler = scaler
        #: Parts since the last step, and the sum of their weights.
        self.count = 0
        self.weight = 0.0

    def backward(self, loss: Any, weight: float = 1.0) -> None:
        """Add `weight` times the gradients of `loss`, a scalar."""
        if not weight > 0.0:
            raise ModuleError(f"[GradientAccumulation] weight={weight}: give a number above 0")
        if self.count == 0:
            self.optimizer.zero_grad()
        (loss if self.scaler is None else self.scaler.scale(loss)).backward(weight)
        if self.every > 1:
            ft.per_step(self.count, "parts before this one in GradientAccumulation")
        self.count += 1
        self.weight += weight

    def step(self) -> bool:
        """Update the parameters if `every` parts have come; whether that was so."""
        return self.count >= self.every and self.flush()

    @in_update(GRADIENT)
    def flush(self) -> bool:
        """Update the parameters with the parts that have come; whether that was so: there may be
        none, and the scaler may have to skip."""
        if self.count == 0:
            return False
        weight, self.count, self.weight = self.weight, 0, 0.0
        if self.every > 1:
            ft.per_step(weight, "weight of all parts in GradientAccumulation")
        if self.scaler is not None and not self.scaler.unscale(self.optimizer):
            return False
        for parameter in self.optimizer.parameters:
            if parameter.grad is not None:
                map_stored_gradient(parameter, lambda grad: grad / weight)
        if self.before_step is not None:
            self.before_step()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return True

    def state_dict(self) -> dict[str, Any]:
        """A snapshot; `tensors` has the gradients gathered, by number of parameter: "0", or
        "0.indices" and "0.values" of rows."""
        pending: dict[str, ft.Tensor] = {}
        for i, parameter in enumerate(self.optimizer.parameters):
            grad = parameter.grad
            if isinstance(grad, SparseGradient):
                pending |= {f"{i}.indices": grad.indices, f"{i}.values": grad.values.tensor}
            elif grad is not None:
                pending[str(i)] = grad.tensor
        return {
            "count": self.count,
            "weight": self.weight,
            "tensors": {k: copy.copy(v) for k, v in pending.items()} if self.count else {},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state. Raises StateDictError, and changes nothing, when it does not fit."""
        parameters = self.optimizer.parameters
        count, weight, tensors = (state.get(k) for k in ("count", "weight", "tensors"))
        if not is_number(count) or not is_number(weight) or not are_tensors(tensors):
            raise StateDictError("this is not the state of a GradientAccumulation")
        gradients = [_gradient(tensors, str(i), own) for i, own in enumerate(parameters)]
        known = {f"{i}{part}" for i in range(len(parameters)) for part in ("", *_ROWS)}
        for name in tensors.keys() - known:
            raise _misfit(name, tensors[name])
        self.count, self.weight = state["count"], state["weight"]
        self.optimizer.zero_grad()
        for own, grad in zip(parameters, gradients):
            own.grad = grad

    def __repr__(self) -> str:
        return f"GradientAccumulation({self.count} of {self.every} parts)"


_ROWS = (".indices", ".values")


def _gradient(tensors: Mapping[str, ft.Tensor], name: str, own: Parameter) -> Any:
    """The gradient of a parameter in a state: a tensor, rows, or None."""
    indices, values = (tensors.get(name + part) for part in _ROWS)
    if indices is not None and values is not None:
        fits = indices.shape == values.shape[:1] and indices.dtype is ft.int64
        if not fits or values.shape[1:] != own.shape[1:] or values.dtype is not own.dtype:
            raise _misfit(f"{name}.values", values)
        return SparseGradient(like(indices, own.tensor), like(values, own.tensor), own.shape)
    tensor = tensors.get(name)
    if tensor is None:
        return None
    if tensor.shape != own.shape or tensor.dtype is not own.dtype:
        raise _misfit(name, tensor)
    return like(tensor, own.tensor)


def _misfit(name: str, tensor: ft.Tensor) -> StateDictError:
    return StateDictError(
        f"gradient {name} of the state is {tensor.dtype} {tensor.shape}, and fits no parameter "
        "here: accumulate over the same parameters in the same order"
    )
