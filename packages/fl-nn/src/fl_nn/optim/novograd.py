"""NovoGrad: gradients normalised per layer."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import AT_LEAST_ZERO, BETAS, FLAG


class Novograd(Optimizer):
    """Ginsburg et al., 2019, algorithm 1. Each parameter has one second moment, v = |g|^2 at first
    and v = beta2 * v + (1 - beta2) * |g|^2 later; with u = g / (sqrt(v) + eps) + weight_decay * p
    and m = beta1 * m + u: p -= lr * m.

    grad_averaging   m = beta1 * m + (1 - beta1) * u, as Flashlight's (which starts v at 0, so that
                     its first steps are up to 1 / sqrt(1 - beta2) too long)
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "betas": BETAS,
        "eps": AT_LEAST_ZERO,
        "weight_decay": AT_LEAST_ZERO,
        "grad_averaging": FLAG,
    }
    slots = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.95, 0.98),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        grad_averaging: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            grad_averaging=grad_averaging,
        )

    def slot_shape(self, slot: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return () if slot == "exp_avg_sq" else shape

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        first, second = group["betas"]
        square = ft.sum(grad * grad)
        if "exp_avg_sq" in state:
            square = second * state["exp_avg_sq"] + (1.0 - second) * square
        step = grad / (ft.sqrt(square) + group["eps"])
        if group["weight_decay"]:
            step = step + group["weight_decay"] * value
        if group["grad_averaging"]:
            step = (1.0 - first) * step
        mean = first * state.get("exp_avg", 0.0) + step
        state["exp_avg"], state["exp_avg_sq"] = mean, square
        return value - group["lr"] * mean
