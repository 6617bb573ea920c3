"""LBFGS: a quasi-Newton method with limited memory, for losses of the whole data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_memory.tags import STATE, tagged
from fl_nn.errors import ModuleError, TrainingError
from fl_nn.optim.line_search import Point, strong_wolfe
from fl_nn.optim.optimizer import Group, Optimizer, Params, State
from fl_nn.settings import ABOVE_ZERO, AT_LEAST_ZERO, COUNT

#: A pair with less curvature than this, as a share, is rounding and is not kept.
_LEAST_CURVATURE = 2.0**-52


class LBFGS(Optimizer):
    """Limited-memory BFGS with a line search for the strong Wolfe conditions. Nocedal & Wright,
    Numerical Optimization, 2nd edition, algorithms 7.4 and 7.5.

    It computes the loss several times in a step, so `step` takes a function for it:

        optimizer = nn.LBFGS(model.parameters())

        def closure():
            loss = nn.mse(model(x), y)
            loss.backward()
            return loss

        for _ in range(10):
            loss = optimizer.step(closure)

    The loss has to be the same function in every call: of all data, without Dropout.

    lr                the first trial of each line search, in units of the quasi-Newton step
    max_iter          iterations per `step`
    max_eval          losses per `step`; None: 5 / 4 of max_iter
    tolerance_grad    ends a step where no element of the gradient is larger
    tolerance_change  ends a step where neither the loss nor an element of the parameters changes
                      more
    history_size      pairs of differences that are kept

    Names and defaults are PyTorch's, apart from the history of 10 instead of 100 pairs, and the
    line search, which is not optional. All parameters are in one group, of one dtype, float32 or
    float64, on one device (ModuleError).
    """

    kinds = {
        "lr": ABOVE_ZERO,
        "max_iter": COUNT,
        "max_eval": COUNT,
        "tolerance_grad": AT_LEAST_ZERO,
        "tolerance_change": AT_LEAST_ZERO,
        "history_size": COUNT,
    }

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 10,
    ) -> None:
        #: Differences of positions (s) and gradients (y), of all parameters as one vector, in the
        #: state of the first parameter; "s0" is the oldest.
        self.slots = tuple(f"{kind}{i}" for kind in "sy" for i in range(history_size))
        super().__init__(
            params,
            lr=lr,
            max_iter=max_iter,
            max_eval=max(max_iter * 5 // 4, 2) if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
        )
        #: Which parameters had a gradient in the last step: the history is of those.
        self._graded: tuple[bool, ...] | None = None
        kinds = {(p.dtype, p.device, p.backend.name) for p in self.parameters}
        if len(kinds) > 1 or any(p.dtype.itemsize < 4 for p in self.parameters):
            found = ", ".join(sorted({f"{p.dtype} on {p.device}" for p in self.parameters}))
            raise ModuleError(
                f"[LBFGS] the parameters are {found}: give parameters of one dtype, float32 or "
                "float64, on one device; model.to(dtype) converts them"
            )

    def slot_shape(self, slot: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (sum(parameter.size for parameter in self.parameters),)

    def add_param_group(self, group: Any) -> None:
        """The one group that there is. Raises ModuleError for a second one."""
        if self.param_groups:
            raise ModuleError("[LBFGS] there is one group: give all parameters in one list")
        super().add_param_group(group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make `max_iter` iterations, or fewer where the tolerances are met. `closure` computes the
        loss, calls `backward` and returns the loss; gradients are forgotten before each call. Gives
        the first loss, that of the parameters before the step.

        Raises TrainingError without a closure, for a loss without gradients, and for a first loss
        or gradient that is not finite.
        """
        if not callable(closure):
            raise TrainingError(
                "[LBFGS] step() computes the loss several times: give step(closure), a function "
                "that computes the loss, calls loss.backward() and returns the loss"
            )
        with tagged(STATE):
            return self._iterate(closure, self.param_groups[0])

    def step_if(self, condition: ft.Tensor) -> bool:
        """Raises TrainingError: a step computes the loss anew, and cannot be undone as a whole."""
        raise TrainingError(
            "[LBFGS] a Trainer or a loss scaler makes one step per loss, and LBFGS computes the "
            "loss several times: call optimizer.step(closure) in a loop of your own"
        )

    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        """Raises TrainingError: all parameters are updated together, by `step`."""
        raise TrainingError("[LBFGS] parameters are updated together: call step(closure)")

    def _iterate(self, closure: Callable[[], Any], group: Group) -> Any:
        left = group["max_eval"]
        seen: dict[float, ft.Tensor] = {}

        def loss_here() -> Any:
            nonlocal left
            left -= 1
            self.zero_grad()
            return closure()

        first = loss_here()
        value, gradient = _number(first), self._gradient()
        position = self._position()
        if not math.isfinite(value):
            raise TrainingError(f"[LBFGS] the loss is {value} before the step: lower it first")
        graded = tuple(parameter.grad is not None for parameter in self.parameters)
        if self._graded not in (None, graded):
            self._forget()  # a direction from before would move frozen parameters
        self._graded = graded
        if not math.isfinite(_dot(gradient, gradient)):
            raise TrainingError("[LBFGS] the gradient is not finite before the step")
        for _ in range(group["max_iter"]):
            if left < 1 or _largest(gradient) <= group["tolerance_grad"]:
                break
            pairs = self._pairs()
            direction = _direction(gradient, pairs)
            slope = _dot(gradient, direction)
            if not slope < 0.0:  # rounding has spoilt the history
                self._forget()
                pairs, direction = [], -gradient
                slope = _dot(gradient, direction)
            trial = group["lr"] * (1.0 if pairs else min(1.0, 1.0 / math.sqrt(-slope)))
            length = _largest(direction)
            seen.clear()
            at = self._along(position, direction, loss_here, seen)
            start = Point(0.0, value, slope)
            width = group["tolerance_change"] / length
            found = strong_wolfe(at, start, trial, least_width=width, most=left)
            if found.step == 0.0:
                if not pairs or left < 1:
                    break
                self._forget()  # once more along the gradient
                continue
            change = found.step * direction
            self._remember(change, seen[found.step] - gradient)
            position, gradient = position + change, seen[found.step]
            self.state[0]["step"] = self.state[0].get("step", 0) + 1
            before, value = value, found.value
            little = group["tolerance_change"]
            if abs(before - value) <= little or found.step * length <= little:
                break
        self._move(position)
        ft.eval(*self.parameters)
        return first

    def _along(
        self,
        position: ft.Tensor,
        direction: ft.Tensor,
        loss_here: Callable[[], Any],
        seen: dict[float, ft.Tensor],
    ) -> Callable[[float], Point]:
        """The loss along a direction; `seen` keeps the gradient at every step."""

        def at(step: float) -> Point:
            self._move(position + step * direction)
            loss = _number(loss_here())
            seen[step] = self._gradient()
            return Point(step, loss, _dot(seen[step], direction))

        return at

    # ---- all parameters as one vector ----------------------------------------------------------

    def _position(self) -> ft.Tensor:
        return ft.concatenate([ft.reshape(p.tensor, (-1,)) for p in self.parameters])

    def _gradient(self) -> ft.Tensor:
        parts, known = [], False
        for parameter in self.parameters:
            grad = parameter.grad
            if isinstance(grad, SparseGradient):
                raise self._sparse_error("needs the gradient of every row")
            known |= grad is not None
            tensor = ft.zeros_like(parameter.tensor) if grad is None else grad.tensor
            parts.append(ft.reshape(tensor, (-1,)))
        if not known:
            raise TrainingError(
                f"[LBFGS] step(closure): none of the {len(parts)} parameters has a gradient; the "
                "closure has to call loss.backward() before it returns the loss"
            )
        return ft.concatenate(parts)

    def _move(self, position: ft.Tensor) -> None:
        start = 0
        for parameter in self.parameters:
            part = position[start : start + parameter.size]
            parameter.tensor = ft.reshape(part, parameter.shape)
            start += parameter.size

    # ---- the history ---------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[ft.Tensor, ft.Tensor]]:
        state = self.state[0]
        count = sum(name.startswith("y") for name in state)
        pairs = [(state[f"s{i}"], state[f"y{i}"]) for i in range(count)]
        return pairs[-self.param_groups[0]["history_size"] :]

    def _remember(self, change: ft.Tensor, turn: ft.Tensor) -> None:
        if _dot(change, turn) <= _LEAST_CURVATURE * _dot(turn, turn):
            return
        kept = [*self._pairs(), (change, turn)][-self.param_groups[0]["history_size"] :]
        self._forget()
        for i, (s, y) in enumerate(kept):
            self.state[0][f"s{i}"], self.state[0][f"y{i}"] = s, y

    def _forget(self) -> None:
        state = self.state[0]
        self.state[0] = {name: value for name, value in state.items() if name == "step"}


def _direction(gradient: ft.Tensor, pairs: list[tuple[ft.Tensor, ft.Tensor]]) -> ft.Tensor:
    # The two-loop recursion, algorithm 7.4, with (7.20) as the first matrix.
    q, shares = -gradient, []
    for s, y in reversed(pairs):
        share = ft.sum(s * q) / ft.sum(s * y)
        q = q - share * y
        shares.append(share)
    if pairs:
        s, y = pairs[-1]
        q = q * (ft.sum(s * y) / ft.sum(y * y))
    for (s, y), share in zip(pairs, reversed(shares)):
        q = q + (share - ft.sum(y * q) / ft.sum(s * y)) * s
    return q


def _dot(x: ft.Tensor, y: ft.Tensor) -> float:
    return float(ft.sum(x * y).item())


def _largest(x: ft.Tensor) -> float:
    return float(ft.max(abs(x)).item()) if x.size else 0.0


def _number(loss: Any) -> float:
    if getattr(loss, "shape", None) != ():
        raise TrainingError(
            f"[LBFGS] the closure returned {type(loss).__name__}"
            f" {getattr(loss, 'shape', '')}: return the loss, one number"
        )
    return float(loss.item())
