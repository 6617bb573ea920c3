"""SGD: gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Parameter
from fl_nn.optim.optimizer import Optimizer, at_least_zero


class SGD(Optimizer):
    """With g = gradient + weight_decay * p and v = momentum * v + g (v = g at first):
    p -= lr * v, or with `nesterov` p -= lr * (g + momentum * v). As PyTorch's SGD.
    """

    settings = ("lr", "momentum", "weight_decay", "nesterov")
    slots = ("momentum",)

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(parameters, lr)
        self.momentum = at_least_zero("SGD", "momentum", momentum)
        self.weight_decay = at_least_zero("SGD", "weight_decay", weight_decay)
        self.nesterov = nesterov
        if nesterov and momentum == 0.0:
            raise ModuleError("[SGD] nesterov=True needs a momentum above 0")

    def update(
        self, value: ft.Tensor, grad: ft.Tensor, state: dict[str, ft.Tensor], step: int
    ) -> ft.Tensor:
        if self.weight_decay:
            grad = ft.add(grad, ft.multiply(value, self.weight_decay))
        if self.momentum:
            velocity = state.get("momentum")
            if velocity is None:
                velocity = grad
            else:
                velocity = ft.add(ft.multiply(velocity, self.momentum), grad)
            state["momentum"] = velocity
            if self.nesterov:
                grad = ft.add(grad, ft.multiply(velocity, self.momentum))
            else:
                grad = velocity
        return ft.subtract(value, ft.multiply(grad, self.lr))
