"""Adam: steps scaled by running moments of the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fl_nn.errors import ModuleError
from fl_nn.optim.optimizer import Optimizer, at_least_zero
from fl_nn.parameter import Parameter


class Adam(Optimizer):
    """Kingma & Ba, 2015: m and v follow the gradient and its square by `betas`, both corrected for
    starting at zero; p -= lr * m / (sqrt(v) + eps).

    `weight_decay` is added to the gradient as weight_decay * p, as PyTorch's Adam does; with
    `decoupled` p shrinks by lr * weight_decay * p instead (Loshchilov & Hutter, 2019; AdamW, and
    Flashlight's Adam).
    """

    settings = ("lr", "betas", "eps", "weight_decay", "decoupled")
    slots = ("mean", "square")

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled: bool = False,
    ) -> None:
        super().__init__(parameters, lr)
        if len(betas) != 2 or not all(0.0 <= beta < 1.0 for beta in betas):
            raise ModuleError(f"[Adam] betas={betas}: give two numbers in [0, 1)")
        self.betas = (betas[0], betas[1])
        self.eps = at_least_zero("Adam", "eps", eps)
        self.weight_decay = at_least_zero("Adam", "weight_decay", weight_decay)
        self.decoupled = decoupled

    def update(self, ops: Any, value: Any, grad: Any, state: dict[str, Any], step: int) -> Any:
        add, multiply = ops.add, ops.multiply

        def number(x: float) -> Any:
            return ops.constant(x, grad)

        first, second = self.betas
        if self.weight_decay and self.decoupled:
            value = multiply(value, number(1.0 - self.lr * self.weight_decay))
        elif self.weight_decay:
            grad = add(grad, multiply(value, number(float(self.weight_decay))))
        mean = multiply(grad, number(1.0 - first))
        square = multiply(multiply(grad, grad), number(1.0 - second))
        if state:
            mean = add(multiply(state["mean"], number(first)), mean)
            square = add(multiply(state["square"], number(second)), square)
        state["mean"], state["square"] = mean, square
        # lr m/c1 / (sqrt(v/c2) + eps), with both corrections moved into numbers.
        root = math.sqrt(1.0 - second**step)
        size = self.lr * root / (1.0 - first**step)
        denominator = add(ops.sqrt(square), number(self.eps * root))
        return ops.subtract(value, multiply(ops.divide(mean, denominator), number(size)))
