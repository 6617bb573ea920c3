"""NAG: Nesterov's accelerated gradient with decoupled weight decay."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import ABOVE_ZERO, AT_LEAST_ZERO


class NAG(Optimizer):
    """p shrinks by lr * weight_decay * p; then, with v = momentum * v + gradient,
    p -= lr * (gradient + momentum * v).

    The steps of fairseq's and Flashlight's NAG. Those keep lr * v, and correct it by lr / old lr
    whenever the rate changes; v itself needs no correction, and survives a rate of 0.
    """

    kinds = {"lr": AT_LEAST_ZERO, "momentum": ABOVE_ZERO, "weight_decay": AT_LEAST_ZERO}
    slots = ("momentum_buffer",)
    elementwise = True
    takes_complex = True

    def __init__(
        self, params: Params, lr: float, momentum: float = 0.99, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay)

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        lr, momentum = group["lr"], group["momentum"]
        if group["weight_decay"]:
            value = (1.0 - lr * group["weight_decay"]) * value
        velocity = momentum * state.get("momentum_buffer", 0.0) + grad
        state["momentum_buffer"] = velocity
        return value - lr * (grad + momentum * velocity)
