"""SGD: gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fl_nn.errors import ModuleError
from fl_nn.optim.optimizer import Optimizer, at_least_zero
from fl_nn.parameter import Parameter


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

    def update(self, ops: Any, value: Any, grad: Any, state: dict[str, Any], step: int) -> Any:
        if self.weight_decay:
            decay = ops.constant(float(self.weight_decay), value)
            grad = ops.add(grad, ops.multiply(value, decay))
        if self.momentum:
            momentum = ops.constant(float(self.momentum), value)
            velocity = grad
            if "momentum" in state:
                velocity = ops.add(ops.multiply(state["momentum"], momentum), grad)
            state["momentum"] = velocity
            if self.nesterov:
                grad = ops.add(grad, ops.multiply(velocity, momentum))
            else:
                grad = velocity
        return ops.subtract(value, ops.multiply(grad, ops.constant(float(self.lr), value)))
