"""Adagrad: steps scaled by the sum of squared gradients."""

from __future__ import annotations

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.optim.sparse import apply_sparse_update
from fl_nn.parameter import Parameter
from fl_nn.settings import AT_LEAST_ZERO


class Adagrad(Optimizer):
    """Duchi et al., 2011: with g = gradient + weight_decay * p and s = s + g^2,
    p -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(s) + eps). As PyTorch's Adagrad. (Flashlight
    starts at lr=1 and takes weight_decay * p off p, whatever the learning rate.) Gradients of rows
    (`Embedding(sparse=True)`) move these rows alone; with weight decay they are a TrainingError.
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "lr_decay": AT_LEAST_ZERO,
        "weight_decay": AT_LEAST_ZERO,
        "initial_accumulator_value": AT_LEAST_ZERO,
        "eps": AT_LEAST_ZERO,
    }
    slots = ("sum",)
    elementwise = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * value
        total = state.get("sum", float(group["initial_accumulator_value"])) + grad * grad
        state["sum"] = total
        lr = group["lr"]
        if group["lr_decay"]:
            lr = ft.per_step(
                lr / (1.0 + (state["step"] - 1) * group["lr_decay"]), "decayed rate of Adagrad"
            )
        return value - lr * (grad / (ft.sqrt(total) + group["eps"]))

    def update_rows(
        self, parameter: Parameter, grad: SparseGradient, state: State, group: Group
    ) -> None:
        if group["weight_decay"]:
            raise self._sparse_error("with weight decay moves every row at every step")
        start = float(group["initial_accumulator_value"])
        apply_sparse_update(self.update, parameter, grad, state, group, start)
