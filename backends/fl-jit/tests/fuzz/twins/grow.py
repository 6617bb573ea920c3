"""Drawing a program, line by line: each is tried on NumPy, so that shapes and dtypes are known."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import fl_tensor as ft
from twins.program import Program, environment

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: How often an array is of which dtype.
DTYPES = ["float32"] * 12 + [*FLOATS, *FLOATS, *INTEGERS, "int32", "int64", "bool", "bool"]
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
ERRORS = (ValueError, TypeError, IndexError, RuntimeError)


class Growing:
    """A program in the making, the values that it has so far (those of data 0, on NumPy), and
    choices."""

    def __init__(self, seed: int, number: int, gradients: bool) -> None:
        self.rng = random.Random(f"{seed} {number}")
        self.values: dict[str, Any] = {}
        self.scope = environment(seed, 0)
        large = self.chance(8)
        self.most = 40_000 if large else 3000
        self.base = self._base(large)
        self.gradients = gradients and self.chance(30)
        smallest = 1 if not large or self.chance(50) else 8192
        compile_after = 1 if self.chance(15) else 2
        background = compile_after > 1 and self.chance(15)
        self.program = Program([], [], smallest, compile_after, background, seed)
        self.count = 0

    def _base(self, large: bool) -> tuple[int, ...]:
        # Most arrays of a program have this shape, or one that broadcasts with it.
        if large:
            return self.choose([(64, 130), (9001,), (3, 50, 61), (2, 8, 24, 25), (200, 100)])
        shape = tuple(self.choose(SIZES) for _ in range(self.choose([1, 2, 2, 3, 3, 4])))
        if self.chance(6):
            at = self.integer(0, len(shape) - 1)
            shape = shape[:at] + (0,) + shape[at + 1 :]
        while math.prod(shape) > self.most // 4:
            shape = shape[1:]
        return shape

    # ---- lines ---------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.program.lines.append(text)

    def assign(self, expression: str) -> bool:
        """Add a value, if the expression gives a useful one, or what it is refused with."""
        name = f"v{self.count}"
        failed = False
        with ft.use("numpy"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = self.scope["g"].state()
            try:
                made = eval(expression, self.scope)
            except ERRORS:
                self.scope["g"].set_state(state)
                failed = True
        if failed:
            if self.chance(10):
                self.line(f"{name} = refused(lambda: {expression})")
                self.program.outputs.append(name)
                self.count += 1
            return False
        if not isinstance(made, ft.Array) or made.size > self.most or not self._useful(made):
            self.scope["g"].set_state(state)
            return False
        self.line(f"{name} = {expression}")
        self.scope[name] = self.values[name] = made
        self.count += 1
        return True

    def _useful(self, made: Any) -> bool:
        # Programs whose numbers are all infinite, or huge, tell nothing.
        if made.dtype.kind not in "fc" or not made.size or self.chance(10):
            return True
        values = np.abs(np.asarray(getattr(made, "tensor", made)).astype(np.complex128))
        finite = np.isfinite(values)
        return bool(finite.mean() > 0.5 and values[finite].max(initial=0.0) < 1e4)

    def forget(self, name: str) -> None:
        self.line(f"del {name}")
        del self.values[name]

    # ---- choices -------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self.rng.randrange(len(options))]

    def shuffled(self, options: Iterable[Any]) -> list[Any]:
        found = list(options)
        self.rng.shuffle(found)
        return found

    def scalar(self) -> str:
        return str(self.choose([2, 0.5, -1, 3, 1.5, 0, -0.25, 1e-3, True]))

    def size(self) -> int:
        return self.choose(SIZES)

    # ---- values --------------------------------------------------------------------------------

    def one(self, names: Sequence[str]) -> str | None:
        """One of them, new ones more often than old ones."""
        if not names:
            return None
        return names[max(self.rng.randrange(len(names)) for _ in range(3))]

    def any(self) -> str:
        return self.one(list(self.values)) or "ft.ones(3)"

    def kind(self, kinds: str) -> list[str]:
        return [n for n, x in self.values.items() if x.dtype.kind in kinds]

    def floats(self) -> list[str]:
        return [n for n, x in self.values.items() if x.dtype.is_floating]

    def numbers(self) -> list[str]:
        return [n for n, x in self.values.items() if x.dtype.kind != "b"]

    def fitting(self, x: str, kinds: str = "biufc") -> list[str]:
        """Values that broadcast with ``x``."""
        return [n for n in self.kind(kinds) if _broadcast(self.shape(n), self.shape(x))]

    def partner(self, x: str) -> str:
        """A second operand: a value, a number, a new array."""
        kind = self.integer(0, 9)
        if kind < 2 or x not in self.values:
            return self.scalar()
        if kind < 4:
            shape = self.partner_shape(self.shape(x))
            return self.array(shape, self.dtype(x) if self.chance(80) else self.any_dtype())
        return self.one(self.fitting(x)) or x

    def shape(self, x: str) -> tuple[int, ...]:
        return tuple(self.values[x].shape)

    def rank(self, x: str) -> int:
        return len(self.values[x].shape) if x in self.values else 1

    def dtype(self, x: str) -> str:
        return self.values[x].dtype.name

    # ---- expressions ---------------------------------------------------------------------------

    def any_dtype(self) -> str:
        return self.choose(DTYPES)

    def partner_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        kept = list(shape[self.integer(0, len(shape)) :] if self.chance(30) else shape)
        return tuple(1 if self.chance(25) else n for n in kept)

    def some_shape(self) -> tuple[int, ...]:
        return self.base if self.chance(60) else self.partner_shape(self.base)

    def array(self, shape: tuple[int, ...], dtype: str, special: bool = False) -> str:
        extra = ", True" if special else ""
        return f"array({tuple(shape)}, '{dtype}', {self.integer(0, 999)}{extra})"

    def indices(self, size: int, shape: tuple[int, ...], dtype: str = "int64") -> str:
        return f"indices({size}, {shape}, {self.integer(0, 999)}, '{dtype}')"

    def axis(self, rank: int) -> int:
        return self.integer(0, rank - 1) if rank else 0

    def axes(self, rank: int) -> str:
        """None, one axis, several in any order, none at all; rarely a wrong one."""
        if self.chance(20) or not rank:
            return "None"
        if self.chance(3):
            return str(rank)
        count = self.choose([1, 1, 1, 2, 2, 3, 0])
        found = self.shuffled(range(rank))[:count]
        return (
            str(found[0] - rank if self.chance(30) else found[0])
            if count == 1
            else str(tuple(found))
        )

    def factors(self, size: int, rank: int | None = None) -> tuple[int, ...]:
        """A shape of ``size`` elements."""
        if not size:
            return (0, 2)
        rank = self.integer(0 if size == 1 else 1, 4) if rank is None else rank
        shape = []
        for _ in range(max(rank - 1, 0)):
            n = self.choose([k for k in range(1, min(size, 64) + 1) if size % k == 0])
            shape.append(n)
            size //= n
        return tuple(self.shuffled([*shape, size])) if rank else ()

    def basic_index(self, shape: Sequence[int]) -> str:
        """Integers, slices with any step, None and an ellipsis."""
        items = []
        for n in shape[: self.integer(0, len(shape))]:
            form = self.integer(0, 5)
            if form == 0 and n:
                items.append(str(self.integer(-n, n - 1)))
            elif form == 1:
                items.append("::-1")
            elif form == 2:
                items.append(f"{self.integer(0, n)}:")
            elif form == 3:
                items.append(f"{self.integer(0, n)}::{self.choose([2, 3, -1, -2])}")
            elif form == 4:
                items.append(f":{self.integer(-n, n)}")
            else:
                items.append(":")
        if self.chance(15):
            items.insert(self.integer(0, len(items)), "None")
        elif self.chance(10):
            items.insert(self.integer(0, len(items)), "...")
        return ", ".join(items) or "..."


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


def grow(seed: int, number: int, gradients: bool = False) -> Program:
    """Program ``number`` of ``seed``."""
    from twins.lines import LINES

    p = Growing(seed, number, gradients)
    leaves = []
    for _ in range(p.integer(1, 3)):
        made = p.array(p.some_shape(), p.any_dtype(), special=p.chance(12))
        if p.gradients:
            made = f"variable({p.array(p.some_shape(), p.choose(['float32', 'float64']))})"
            leaves.append(f"v{p.count}")
        p.assign(made)
    lines, weights = list(LINES), list(LINES.values())
    for _ in range(p.integer(3, 12)):
        make = p.rng.choices(lines, weights)[0]
        expression = make(p) if p.values else None
        if expression:
            p.assign(expression)
        if p.chance(8) and p.values:
            _change(p, leaves)
        if p.chance(8) and p.values:
            p.line(f"look({p.any()})")
        if p.chance(15) and len(p.values) > 2 and (x := p.any()) not in leaves:
            p.forget(x)
    if p.gradients:
        _backward(p, leaves)
    _finish(p, leaves)
    return p.program


def _change(p: Growing, leaves: list[str]) -> None:
    # Assignment to elements, which may be made in place: of no other value.
    x = p.any()
    if x in leaves:
        return
    size = p.shape(x)[0] if p.rank(x) else 0
    index = p.basic_index(p.shape(x)) if p.chance(70) or not size else p.indices(size, (2,))
    value = p.choose(["2", "0", f"{x}[{index}]", f"{x}[{index}] + 1"])
    text = f"{x}[{index}] = {value}"
    if p.chance(30):
        text = f"{x} {p.choose('+-*')}= {p.partner(x)}"
    scope = {**p.scope, x: p.values[x].copy() if hasattr(p.values[x], "copy") else p.values[x]}
    with ft.use("numpy"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(text, scope)
        except ERRORS:
            return
    if p._useful(scope[x]):
        p.line(text)
        p.scope[x] = p.values[x] = scope[x]


def _backward(p: Growing, leaves: list[str]) -> None:
    """The gradient of a weighted sum of some values with respect to the leaves."""
    terms = []
    reached = [n for n in p.floats() if getattr(p.values[n], "requires_grad", False)]
    for name in dict.fromkeys([*reached[-1:], *reached[:1]]):
        terms.append(f"ft.sum({name} * {p.array(p.shape(name), p.dtype(name))})")
    if not terms:
        return
    loss = " + ".join(f"ft.cast({t}, 'float64')" for t in terms)
    p.line(f"loss = {loss}")
    p.line("loss.backward()")
    p.program.outputs += [f"{leaf}.grad" for leaf in leaves]


def _finish(p: Growing, leaves: list[str]) -> None:
    # What is not an output is gone when the outputs are computed.
    names = list(p.values)
    kept = [n for n in names if p.chance(30) or n == names[-1]]
    for name in names:
        if name not in kept and name not in leaves:
            p.line(f"del {name}")
    p.program.outputs += kept
