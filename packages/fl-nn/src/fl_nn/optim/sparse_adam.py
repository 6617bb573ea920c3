"""SparseAdam: Adam on the rows that have a gradient."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_autograd import RowGradient
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.optim.rows import update_touched
from fl_nn.parameter import Parameter
from fl_nn.settings import AT_LEAST_ZERO, BETAS


class SparseAdam(Optimizer):
    """Adam for tables whose gradients are rows (`Embedding(sparse=True)`): moments and weights of
    the rows that were looked up follow Adam's equations, those of others wait. As PyTorch's
    SparseAdam: corrections go by the number of steps of the whole table, and eps is added to the
    root of the moment before it is corrected. A dense gradient, which PyTorch's refuses, is one of
    all rows, so that it can train the whole model.
    """

    kinds = {"lr": AT_LEAST_ZERO, "betas": BETAS, "eps": AT_LEAST_ZERO}
    slots = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps)

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        first, second = group["betas"]
        mean = first * state.get("exp_avg", 0.0) + (1.0 - first) * grad
        square = second * state.get("exp_avg_sq", 0.0) + (1.0 - second) * (grad * grad)
        state["exp_avg"], state["exp_avg_sq"] = mean, square
        size = math.sqrt(1.0 - second ** state["step"]) / (1.0 - first ** state["step"])
        size = ft.per_step(size, "bias correction of SparseAdam")
        return value - group["lr"] * size * (mean / (ft.sqrt(square) + group["eps"]))

    def update_rows(
        self, parameter: Parameter, grad: RowGradient, state: State, group: Group
    ) -> None:
        update_touched(self.update, parameter, grad, state, group)
