"""Lion: steps by the sign of the momentum."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import AT_LEAST_ZERO, BETAS


class Lion(Optimizer):
    """Chen et al., 2023, algorithm 2: p -= lr * (sign(beta1 * m + (1 - beta1) * g) +
    weight_decay * p); then m = beta2 * m + (1 - beta2) * g. Every element moves by lr, so choose it
    3 to 10 times smaller, and weight_decay as much larger, than for AdamW.
    """

    kinds = {"lr": AT_LEAST_ZERO, "betas": BETAS, "weight_decay": AT_LEAST_ZERO}
    slots = ("exp_avg",)
    elementwise = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, weight_decay=weight_decay)

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        lr, (first, second) = group["lr"], group["betas"]
        mean = state.get("exp_avg", 0.0)
        step = ft.sign(first * mean + (1.0 - first) * grad)
        state["exp_avg"] = second * mean + (1.0 - second) * grad
        if group["weight_decay"]:
            value = (1.0 - lr * group["weight_decay"]) * value
        return value - lr * step
