"""Our modules and PyTorch's side by side, in random configurations.

A *case* says what to compare; a function that draws one is registered with `family`. `compare`
copies the weights, then compares outputs, gradients of inputs, gradients of parameters and
buffers, in training and in evaluation, in float64 to 1e-9 and in float32 to 1e-4.

FL_ORACLE_SEED repeats a run, FL_ORACLE_COUNT sets the number of configurations per family.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft

torch = pytest.importorskip("torch")

SEED = int(os.environ.get("FL_ORACLE_SEED") or int.from_bytes(os.urandom(4), "big"))
COUNT = int(os.environ.get("FL_ORACLE_COUNT") or 25)
BOUNDS = {"float64": 1e-9, "float32": 1e-4}

#: How many configurations have agreed in this process.
compared = 0


class Draw(random.Random):
    """Random settings."""

    def size(self, low: int = 1, high: int = 5) -> int:
        return self.randint(low, high)

    def sizes(self, count: int, low: int = 1, high: int = 5) -> tuple[int, ...]:
        return tuple(self.randint(low, high) for _ in range(count))

    def maybe(self, p: float = 0.5) -> bool:
        return self.random() < p

    def values(self, shape: tuple[int, ...], dtype: str = "float64") -> ft.Tensor:
        return ft.randn(shape, ft.Generator(self.getrandbits(32)), dtype=ft.dtype(dtype))

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> ft.Tensor:
        return ft.Generator(self.getrandbits(32)).integers(low, high, shape)


@dataclass
class Case:
    """Two callables that mean the same.

    mine, theirs   modules or functions of the inputs
    inputs         tensors: the floating ones are differentiated, in the dtype of the run, unless
                   their places are named in `constant`
    forth          what to do to PyTorch's inputs before the call (another layout, say)
    back           what to do to PyTorch's result before it is compared
    rename         our name of a parameter to PyTorch's, where they are not equal
    note           the configuration, for the message
    """

    mine: Any
    theirs: Any
    inputs: tuple[Any, ...]
    note: str = ""
    forth: Callable[..., tuple[Any, ...]] = lambda *xs: xs
    back: Callable[[Any], Any] = lambda y: y
    rename: Callable[[str], str] = lambda name: name
    constant: tuple[int, ...] = ()
    rounds: int = 1
    evaluation: bool = True
    float32: bool = True
    scale: float = 1.0
    check: Callable[[Any, Any], None] | None = None
    bounds: dict[str, float] = field(default_factory=lambda: BOUNDS)


FAMILIES: dict[str, Callable[[Draw], Case]] = {}


def family(function: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
    """Register a function that draws cases."""
    FAMILIES[function.__name__] = function
    return function


def check_family(name: str, count: int = COUNT) -> None:
    """Compare `count` random cases of one family."""
    global compared
    for number in range(count):
        draw = Draw(f"{SEED} {name} {number}")
        case = FAMILIES[name](draw)
        dtype = "float32" if case.float32 and draw.maybe(0.3) else "float64"
        try:
            compare(case, dtype, draw)
        except Exception as error:
            raise AssertionError(
                f"{name} number {number} in {dtype} (FL_ORACLE_SEED={SEED}): "
                f"{case.note or case.mine!r} of {[tuple(x.shape) for x in case.inputs]}: {error}"
            ) from error
        compared += 1


def compare(case: Case, dtype: str, draw: Draw) -> None:
    """Raise AssertionError where the twins differ."""
    modules = isinstance(case.mine, nn.Module)
    if modules:
        case.mine.to(ft.dtype(dtype))
    if isinstance(case.theirs, torch.nn.Module):
        case.theirs.to(getattr(torch, dtype))
    if modules and isinstance(case.theirs, torch.nn.Module):
        copy_weights(case, dtype, draw)
    for _ in range(case.rounds):
        inputs = [
            ft.asarray(x).astype(dtype) if x.dtype.is_floating else ft.asarray(x)
            for x in case.inputs
        ]
        step(case, inputs, dtype, draw)
    if modules and case.evaluation:
        case.mine.eval()
        if isinstance(case.theirs, torch.nn.Module):
            case.theirs.eval()
        step(case, inputs, dtype, draw)


def copy_weights(case: Case, dtype: str, draw: Draw) -> None:
    """Random parameters for ours, and the same for the twin: all names must be there."""
    for parameter in case.mine.parameters():
        values = draw.values(parameter.shape, dtype)
        parameter.tensor = values * (case.scale * 0.5)
    state = {case.rename(name): torch_of(x) for name, x in case.mine.state_dict().items()}
    theirs = case.theirs.state_dict()
    assert sorted(state) == sorted(theirs), f"names: {sorted(state)} but {sorted(theirs)}"
    case.theirs.load_state_dict(state)


def step(case: Case, inputs: list[ft.Tensor], dtype: str, draw: Draw) -> None:
    learn = [x.dtype.is_floating and number not in case.constant for number, x in enumerate(inputs)]
    xs = [nn.Parameter(x) if grad else x for x, grad in zip(inputs, learn)]
    twins = [torch_of(x).requires_grad_(grad) for x, grad in zip(inputs, learn)]
    for side in (case.mine, case.theirs):
        if hasattr(side, "zero_grad"):
            side.zero_grad()
    ys = flat(case.mine(*xs))
    ys_twin = flat(case.back(case.theirs(*case.forth(*twins))))
    assert len(ys) == len(ys_twin), f"{len(ys)} results, but {len(ys_twin)}"
    bound = case.bounds[dtype]
    loss, loss_twin = 0.0, 0.0
    for number, (y, y_twin) in enumerate(zip(ys, ys_twin)):
        close(y, y_twin, bound, f"result {number}")
        if y.dtype.is_floating and y_twin.requires_grad:
            weight = draw.values(y.shape, dtype)
            loss = ft.sum(y * weight) + loss
            loss_twin = (y_twin * torch_of(weight)).sum() + loss_twin
    if torch.is_tensor(loss_twin):
        loss.backward()
        loss_twin.backward()
    for number, (x, twin) in enumerate(zip(xs, twins)):
        if learn[number]:
            close_gradients(x, twin, bound, f"gradient of input {number}")
    if isinstance(case.mine, nn.Module) and isinstance(case.theirs, torch.nn.Module):
        parameters = dict(case.theirs.named_parameters())
        for name, parameter in case.mine.named_parameters():
            twin = parameters[case.rename(name)]
            close_gradients(parameter, twin, bound, f"gradient of {name}")
        buffers = dict(case.theirs.named_buffers())
        for name, buffer in case.mine.named_buffers():
            if case.rename(name) in buffers:
                close(buffer, buffers[case.rename(name)], bound, name)


def close_gradients(x: Any, twin: Any, bound: float, what: str) -> None:
    grad = ft.zeros_like(x.tensor) if x.grad is None else x.grad
    other = torch.zeros_like(twin) if twin.grad is None else twin.grad
    close(grad, other, bound, what)


def close(mine: Any, theirs: Any, bound: float, what: str) -> None:
    mine = torch_of(mine)
    assert mine.shape == theirs.shape, f"{what}: {tuple(mine.shape)} but {tuple(theirs.shape)}"
    assert mine.dtype == theirs.dtype, f"{what}: {mine.dtype} but {theirs.dtype}"
    theirs = theirs.detach()
    same = torch.isclose(mine, theirs, rtol=bound, atol=bound, equal_nan=True)
    if not same.all():
        worst = (mine.double() - theirs.double()).abs().max().item()
        raise AssertionError(f"{what}: {int((~same).sum())} of {same.numel()} differ by {worst}")


def torch_of(x: Any) -> Any:
    """The values of an array of ours as a torch tensor of its own."""
    return torch.tensor(x.numpy())


def flat(result: Any) -> list[Any]:
    """The arrays in nested tuples, lists and dicts; None is left out."""
    if result is None:
        return []
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in flat(part)]
    return [result]
