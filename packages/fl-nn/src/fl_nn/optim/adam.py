"""Adam, AdamW and AMSgrad: steps scaled by running moments of the gradient."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import AT_LEAST_ZERO, BETAS, FLAG


class Adam(Optimizer):
    """Kingma & Ba, 2015: m and v follow the gradient and its square by `betas`, both corrected for
    starting at zero; p -= lr * m / (sqrt(v) + eps). As PyTorch's Adam.

    weight_decay             weight_decay * p is added to the gradient
    amsgrad                  the largest v so far takes the place of v (Reddi et al., 2018)
    decoupled_weight_decay   p shrinks by lr * weight_decay * p instead: see AdamW
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "betas": BETAS,
        "eps": AT_LEAST_ZERO,
        "weight_decay": AT_LEAST_ZERO,
        "amsgrad": FLAG,
        "decoupled_weight_decay": FLAG,
    }
    slots = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    elementwise = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            decoupled_weight_decay=decoupled_weight_decay,
        )

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        lr, (first, second), decay = group["lr"], group["betas"], group["weight_decay"]
        if decay and group["decoupled_weight_decay"]:
            value = (1.0 - lr * decay) * value
        elif decay:
            grad = grad + decay * value
        mean = first * state.get("exp_avg", 0.0) + (1.0 - first) * grad
        square = second * state.get("exp_avg_sq", 0.0) + (1.0 - second) * (grad * grad)
        state["exp_avg"], state["exp_avg_sq"] = mean, square
        if group["amsgrad"]:
            if "max_exp_avg_sq" in state:
                square = ft.maximum(state["max_exp_avg_sq"], square)
            state["max_exp_avg_sq"] = square
        # lr m/c1 / (sqrt(v/c2) + eps), with both corrections moved into numbers.
        root = (1.0 - second ** state["step"]) ** 0.5
        root = ft.per_step(root, "root of the second bias correction of Adam")
        size = lr * root / (1.0 - first ** state["step"])
        size = ft.per_step(size, "bias-corrected rate of Adam")
        return value - size * (mean / (ft.sqrt(square) + group["eps"] * root))


class AdamW(Adam):
    """Adam with decoupled weight decay: p shrinks by lr * weight_decay * p, whatever the moments
    (Loshchilov & Hutter, 2019). As PyTorch's AdamW; Flashlight's Adam is this one."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, decoupled_weight_decay=True)


class AMSgrad(Adam):
    """Adam that never forgets the largest second moment: `Adam(..., amsgrad=True)`. (Flashlight's
    has no bias corrections, and decays weights whatever the learning rate.)"""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad=True,
            decoupled_weight_decay=decoupled_weight_decay,
        )
