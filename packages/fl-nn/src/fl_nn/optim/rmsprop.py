"""RMSprop: steps scaled by a running mean of squared gradients."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import AT_LEAST_ZERO, FLAG, FRACTION


class RMSprop(Optimizer):
    """Hinton, 2012: with g = gradient + weight_decay * p and a running mean s of g^2 by `alpha`,
    p -= lr * g / (sqrt(s) + eps); with `momentum`, the quotients gather velocity. `centered`
    divides by the standard deviation: s - (running mean of g)^2. As PyTorch's RMSprop, but where
    rounding would make that difference negative it is 0. (Flashlight: `rho`, `useFirst`, and a
    weight decay whatever the learning rate.)
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "alpha": FRACTION,
        "eps": AT_LEAST_ZERO,
        "weight_decay": AT_LEAST_ZERO,
        "momentum": AT_LEAST_ZERO,
        "centered": FLAG,
    }
    slots = ("square_avg", "grad_avg", "momentum_buffer")
    elementwise = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
        )

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        alpha = group["alpha"]
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * value
        square = alpha * state.get("square_avg", 0.0) + (1.0 - alpha) * (grad * grad)
        state["square_avg"] = square
        if group["centered"]:
            mean = alpha * state.get("grad_avg", 0.0) + (1.0 - alpha) * grad
            state["grad_avg"] = mean
            square = ft.maximum(square - mean * mean, 0.0)
        step = grad / (ft.sqrt(square) + group["eps"])
        if group["momentum"]:
            step = group["momentum"] * state.get("momentum_buffer", 0.0) + step
            state["momentum_buffer"] = step
        return value - group["lr"] * step
