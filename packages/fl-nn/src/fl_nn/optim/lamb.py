"""LAMB: Adam with layer-wise trust ratios."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import AT_LEAST_ZERO, BETAS


class LAMB(Optimizer):
    """You et al., 2020, algorithm 2: with Adam's corrected moments m and v and the step
    u = m / (sqrt(v) + eps) + weight_decay * p, p -= lr * |p| / |u| * u, norms taken over the
    parameter; where one of them is 0, their ratio counts as 1. For batches of many thousands.
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "betas": BETAS,
        "eps": AT_LEAST_ZERO,
        "weight_decay": AT_LEAST_ZERO,
    }
    slots = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        first, second = group["betas"]
        mean = first * state.get("exp_avg", 0.0) + (1.0 - first) * grad
        square = second * state.get("exp_avg_sq", 0.0) + (1.0 - second) * (grad * grad)
        state["exp_avg"], state["exp_avg_sq"] = mean, square
        mean = mean / ft.per_step(1.0 - first ** state["step"], "first bias correction of LAMB")
        square = square / ft.per_step(
            1.0 - second ** state["step"], "second bias correction of LAMB"
        )
        step = mean / (ft.sqrt(square) + group["eps"])
        if group["weight_decay"]:
            step = step + group["weight_decay"] * value
        weight_norm, step_norm = ft.norm(value), ft.norm(step)
        known = (weight_norm > 0.0) & (step_norm > 0.0)
        ratio = ft.where(known, weight_norm / ft.where(known, step_norm, 1.0), 1.0)
        return value - group["lr"] * ratio * step
