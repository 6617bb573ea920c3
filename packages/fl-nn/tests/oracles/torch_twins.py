"""Our modules and PyTorch's side by side, in random configurations.

A *case* says what to compare; a function that draws one is registered with `family`. `compare`
copies the weights, then compares outputs, gradients of inputs, gradients of parameters and
buffers, in training and in evaluation, in float64 to 1e-9 and in float32 to 1e-4, or as exactly as
PyTorch's own float32 is where rounding alone is worse than that (`rounding.py`).

FL_ORACLE_SEED repeats a run, FL_ORACLE_COUNT sets the number of configurations per family.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rounding import Yardstick, state_of, torch

import fl_nn as nn
import fl_tensor as ft

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
    excuses        whether float32 need not be more exact than PyTorch's (rounding.py)
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
    excuses: bool = True
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


def check_runs(
    name: str, dtype: str, run: Callable[[Draw], None], count: int = max(1, COUNT // 5)
) -> None:
    """Let `run` compare that often, with random settings of its own."""
    global compared
    for number in range(count):
        try:
            run(Draw(f"{SEED} {name} {dtype} {number}"))
        except Exception as error:
            raise AssertionError(
                f"{name} number {number} in {dtype} (FL_ORACLE_SEED={SEED}): {error}"
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
    inputs = [
        ft.asarray(x).astype(dtype) if x.dtype.is_floating else ft.asarray(x) for x in case.inputs
    ]
    for _ in range(case.rounds):
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


class Weights:
    """How much each result counts in the loss: drawn when PyTorch's gets a gradient."""

    def __init__(self, draw: Draw, dtype: str) -> None:
        self.draw, self.dtype = draw, dtype
        self.drawn: dict[int, ft.Tensor] = {}

    def of(self, number: int, y: Any) -> Any:
        if number not in self.drawn:
            self.drawn[number] = self.draw.values(tuple(y.shape), self.dtype)
        return torch_of(self.drawn[number]).to(y.dtype)


def step(case: Case, inputs: list[ft.Tensor], dtype: str, draw: Draw) -> None:
    """One pass, forward and backward."""
    given, weights, bound = [torch_of(x) for x in inputs], Weights(draw, dtype), case.bounds[dtype]
    module = case.theirs if isinstance(case.theirs, torch.nn.Module) else None
    before = state_of(module)
    expected = theirs(case, given, weights)
    found = ours(case, inputs, weights)
    assert set(found) == set(expected), f"{', '.join(found)}, but {', '.join(expected)}"
    problems = {name: difference(x, expected[name], bound, name) for name, x in found.items()}
    if dtype == "float32" and case.excuses and any(problems.values()):
        yardstick = Yardstick(module, before, lambda xs: theirs(case, xs, weights), given)
        problems = {n: p for n, p in problems.items() if not yardstick.excuses(n, found[n], bound)}
    if any(problems.values()):
        raise AssertionError("; ".join(filter(None, problems.values())))


def ours(case: Case, inputs: list[ft.Tensor], weights: Weights) -> dict[str, Any]:
    """Results, gradients of inputs and of parameters, and buffers, under PyTorch's names."""
    learn = [x.dtype.is_floating and i not in case.constant for i, x in enumerate(inputs)]
    xs = [nn.Parameter(x) if grad else x for x, grad in zip(inputs, learn)]
    module = case.mine if both_modules(case) else nn.Identity()
    module.zero_grad()
    ys = flat(case.mine(*xs))
    losses = [ft.sum(ys[number] * weight) for number, weight in weights.drawn.items()]
    if losses:
        sum(losses).backward()
    found = {f"result {number}": torch_of(y) for number, y in enumerate(ys)}
    leaves = {f"gradient of input {i}": x for i, x in enumerate(xs) if learn[i]}
    leaves |= {f"gradient of {case.rename(n)}": p for n, p in module.named_parameters()}
    for name, x in leaves.items():
        found[name] = torch_of(ft.zeros_like(x.tensor) if x.grad is None else x.grad)
    return found | {case.rename(name): torch_of(b) for name, b in module.named_buffers()}


def theirs(case: Case, inputs: list[Any], weights: Weights) -> dict[str, Any]:
    """The same of PyTorch's."""
    learn = [x.is_floating_point() and i not in case.constant for i, x in enumerate(inputs)]
    xs = [x.clone().requires_grad_(grad) for x, grad in zip(inputs, learn)]
    module = case.theirs if both_modules(case) else torch.nn.Identity()
    module.zero_grad()
    ys = flat(case.back(case.theirs(*case.forth(*xs))))
    losses = [(y * weights.of(n, y)).sum() for n, y in enumerate(ys) if y.requires_grad]
    if losses:
        sum(losses).backward()
    found = {f"result {number}": y.detach() for number, y in enumerate(ys)}
    leaves = {f"gradient of input {i}": x for i, x in enumerate(xs) if learn[i]}
    leaves |= {f"gradient of {name}": p for name, p in module.named_parameters()}
    for name, x in leaves.items():
        found[name] = torch.zeros_like(x) if x.grad is None else x.grad.clone()
    return found | {name: b.clone() for name, b in module.named_buffers()}


def both_modules(case: Case) -> bool:
    return isinstance(case.mine, nn.Module) and isinstance(case.theirs, torch.nn.Module)


def difference(mine: Any, theirs: Any, bound: float, what: str) -> str:
    """What is different; "" where nothing is."""
    try:
        close(mine, theirs, bound, what)
    except AssertionError as error:
        return str(error)
    return ""


def close(mine: Any, theirs: Any, bound: float, what: str) -> None:
    mine = mine if torch.is_tensor(mine) else torch_of(mine)
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
