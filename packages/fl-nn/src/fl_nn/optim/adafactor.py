"""Adafactor: factored second moments of matrices."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import ABOVE_ZERO, AT_LEAST_ZERO, Kind, is_number


def _two_eps(value: Any) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    return all(x is None and i == 0 or is_number(x) and x >= 0 for i, x in enumerate(value))


class Adafactor(Optimizer):
    """Shazeer & Stern, 2018, in the form of PyTorch's Adafactor. The running mean of squared
    gradients of a parameter with two axes or more is row * column / mean(row) over the last two; of
    others it is kept whole. Its weight on the past is 1 - step^beta2_decay.

    With u = gradient / sqrt(that mean): p shrinks by lr * weight_decay * p, then
    p -= max(eps[1], rms(p)) * min(lr, 1 / sqrt(step)) * u / max(1, rms(u) / d).

    eps   the least root of a mean (None: the machine epsilon of the dtype) and the least rms(p)
    """

    kinds = {
        "lr": AT_LEAST_ZERO,
        "beta2_decay": Kind("a number of at most 0", lambda x: is_number(x) and x <= 0),
        "eps": Kind("a pair of numbers of at least 0, of which the first may be None", _two_eps),
        "d": ABOVE_ZERO,
        "weight_decay": AT_LEAST_ZERO,
    }
    slots = ("row_var", "col_var", "variance")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay
        )

    def slot_shape(self, slot: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        if slot == "row_var":
            return (*shape[:-1], 1)
        return (*shape[:-2], 1, *shape[-1:]) if slot == "col_var" else shape

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        lr, (tiny, least) = group["lr"], group["eps"]
        tiny = ft.finfo(value.dtype).eps if tiny is None else tiny
        fresh = ft.per_step(
            state["step"] ** group["beta2_decay"], "weight of the new square of Adafactor"
        )
        rate = ft.per_step(min(lr, 1.0 / state["step"] ** 0.5), "relative rate of Adafactor")
        size = rate * ft.maximum(_rms(value), least)
        if group["weight_decay"]:
            value = (1.0 - lr * group["weight_decay"]) * value

        def follow(slot: str, found: ft.Tensor) -> ft.Tensor:
            state[slot] = (1.0 - fresh) * state.get(slot, 0.0) + fresh * found
            return state[slot]

        square = grad * grad
        if grad.ndim > 1:
            row = follow("row_var", ft.mean(square, -1, keepdims=True))
            column = follow("col_var", ft.mean(square, -2, keepdims=True))
            square = row * column / ft.maximum(ft.mean(row, -2, keepdims=True), tiny)
        else:
            square = follow("variance", square)
        step = grad / ft.sqrt(ft.maximum(square, tiny * tiny))
        return value - size / ft.maximum(_rms(step) / group["d"], 1.0) * step


def _rms(x: ft.Tensor) -> ft.Tensor:
    return ft.sqrt(ft.mean(x * x))
