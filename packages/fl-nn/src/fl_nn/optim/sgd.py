"""SGD: gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.optim.precision import update_in_float32
from fl_nn.optim.sparse import apply_sparse_update
from fl_nn.parameter import Parameter
from fl_nn.settings import AT_LEAST_ZERO, FLAG, NUMBER


class SGD(Optimizer):
    """With g = gradient + weight_decay * p and v = momentum * v + (1 - dampening) * g (v = g at
    first): p -= lr * v, or with `nesterov` p -= lr * (g + momentum * v). As PyTorch's SGD.

    Gradients of rows (`Embedding(sparse=True)`) move these rows alone, unless there is momentum,
    which goes on moving all: that step is a dense one. With weight decay they are a TrainingError.
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "momentum": AT_LEAST_ZERO,
        "dampening": NUMBER,
        "weight_decay": AT_LEAST_ZERO,
        "nesterov": FLAG,
    }
    slots = ("momentum_buffer",)
    elementwise = True
    takes_complex = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        *,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )

    def problems(self, settings: Mapping[str, Any]) -> list[str]:
        found = super().problems(settings)
        if (
            not found
            and settings["nesterov"]
            and (not settings["momentum"] or settings["dampening"])
        ):
            found.append("nesterov=True needs a momentum above 0 and no dampening")
        return found

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * value
        momentum = group["momentum"]
        if momentum:
            velocity = grad
            if "momentum_buffer" in state:
                fresh = (1.0 - group["dampening"]) * grad if group["dampening"] else grad
                velocity = momentum * state["momentum_buffer"] + fresh
            state["momentum_buffer"] = velocity
            grad = grad + momentum * velocity if group["nesterov"] else velocity
        return value - group["lr"] * grad

    def update_rows(
        self, parameter: Parameter, grad: SparseGradient, state: State, group: Group
    ) -> None:
        if group["weight_decay"]:
            raise self._sparse_error("with weight decay moves every row at every step")
        if group["momentum"]:
            dense = grad.to_dense().tensor
            parameter.tensor = update_in_float32(self.update, parameter.tensor, dense, state, group)
        else:
            apply_sparse_update(self.update, parameter, grad, state, group)
