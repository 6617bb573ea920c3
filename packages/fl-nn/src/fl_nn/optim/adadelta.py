"""Adadelta: update steps in the units of the parameters."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import AT_LEAST_ZERO, FRACTION


class Adadelta(Optimizer):
    """Zeiler, 2012: with g = gradient + weight_decay * p, running means s of g^2 and d of the
    squared steps, both by `rho`: delta = sqrt(d + eps) / sqrt(s + eps) * g; p -= lr * delta. As
    PyTorch's Adadelta. (Flashlight takes weight_decay * p off p, whatever the learning rate.)
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "rho": FRACTION,
        "eps": AT_LEAST_ZERO,
        "weight_decay": AT_LEAST_ZERO,
    }
    slots = ("square_avg", "acc_delta")
    elementwise = True

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        rho, eps = group["rho"], group["eps"]
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * value
        square = rho * state.get("square_avg", 0.0) + (1.0 - rho) * (grad * grad)
        steps = state["acc_delta"] if "acc_delta" in state else ft.zeros_like(value)
        delta = ft.sqrt(steps + eps) / ft.sqrt(square + eps) * grad
        state["square_avg"] = square
        state["acc_delta"] = rho * steps + (1.0 - rho) * (delta * delta)
        return value - group["lr"] * delta
