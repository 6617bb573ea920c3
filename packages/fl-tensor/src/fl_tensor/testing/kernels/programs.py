"""Random kernels, as source text: programs that always end, and whose operations have results.

Functions of ``math`` are left out, so that a compiler must return the bits of the interpreter.
"""

from __future__ import annotations

import itertools
import linecache
import random
from typing import Any

import fl_tensor as ft
from fl_tensor.kernels import Array, Kernel, kernel

__all__ = ["arguments", "defined", "program"]

_numbers = itertools.count()
_HEAD = (
    "def program(a: int, b: int, x: float, y: float, flag: bool, p: Array[ft.int64],\n"
    "            q: Array[ft.float64], small: Array[ft.int16]) -> {result}:"
)
_EDGES = (0, 1, -1, 2, 3, 63, 64, (1 << 31) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63))


def defined(source: str, **names: Any) -> Kernel:
    """The kernel of a source text, whose function is the last thing in it."""
    file = f"<kernel {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {"ft": ft, "Array": Array, "__name__": __name__, **names}
    exec(compile(source, file, "exec"), scope)
    return kernel([v for v in scope.values() if hasattr(v, "__code__")][-1])


def program(seed: int) -> Kernel:
    """A random kernel of eight parameters, see ``arguments``."""
    return defined(_Writer(random.Random(seed)).source())


def arguments(seed: int) -> list[Any]:
    """Random arguments of a random kernel; arrays are of the module ``array``."""
    from array import array

    r = random.Random(seed)
    ints = [r.choice(_EDGES) if r.random() < 0.3 else r.getrandbits(64) - (1 << 63) for _ in "ab"]
    floats = [r.choice((0.0, -0.0, 1.5, -2.0, 1e300, 3e-310)) for _ in "xy"]
    return [
        *ints,
        *floats,
        r.random() < 0.5,
        array("q", [r.randint(-5, 5) for _ in range(7)]),
        array("d", [r.uniform(-2, 2) for _ in range(5)]),
        array("h", [r.randint(-9, 9) for _ in range(3)]),
    ]


class _Writer:
    """Writes one program."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.lines: list[str] = []

    def source(self) -> str:
        kind = self.random.choice(("int", "float", "bool"))
        self.lines = [_HEAD.format(result=kind)]
        for name in ("c", "d", "k"):
            self.lines.append(f"    {name} = {self.integer(1, 'ab')}")
        self.lines.append(f"    z = {self.float(1, 'xy')}")
        for _ in range(self.random.randint(2, 6)):
            self.statement(1, 2)
        value = {"int": self.integer, "float": self.float, "bool": self.test}[kind](2)
        return "\n".join([*self.lines, f"    return {value}", ""])

    def statement(self, depth: int, left: int) -> None:
        """One statement, with at most ``left`` blocks in each other."""
        indent = "    " * depth
        kind = self.random.choice(
            ("int", "float", "store", "if", "for", "while")[: 6 if left else 3]
        )
        if kind == "int":
            name, op = self.random.choice("cd"), self.random.choice(("", "+", "*", "^", "-"))
            self.lines.append(f"{indent}{name} {op}= {self.integer(2)}")
        elif kind == "float":
            op = self.random.choice(("", "+", "*", "-", "/"))
            self.lines.append(f"{indent}z {op}= {self.float(2)}")
        elif kind == "store":
            array = self.random.choice(("p", "q", "small"))
            value = self.float(1) if array == "q" else self.integer(1)
            if array == "small":
                value = f"({value}) & 0x7FFF"
            self.lines.append(f"{indent}{array}[({self.integer(1)}) % len({array})] = {value}")
        elif kind == "if":
            self.lines.append(f"{indent}if {self.test(2)}:")
            self.statement(depth + 1, left - 1)
            if self.random.random() < 0.5:
                self.lines.append(f"{indent}else:")
                self.statement(depth + 1, left - 1)
        elif kind == "for":
            bounds = self.random.choice(("4", "1, 5", "6, 0, -2", "k & 3", "-3, 3, 2"))
            self.lines.append(f"{indent}for k in range({bounds}):")
            self.statement(depth + 1, left - 1)
            if self.random.random() < 0.4:
                word = self.random.choice(("break", "continue"))
                self.lines += [f"{indent}    if {self.test(1)}:", f"{indent}        {word}"]
                self.statement(depth + 1, left - 1)
        else:
            self.lines.append(f"{indent}k = {self.integer(1)} & 7")
            self.lines.append(f"{indent}while k > 0:")
            self.statement(depth + 1, 0)
            self.lines.append(f"{indent}    k -= 1")

    def integer(self, depth: int, names: str = "abcdk") -> str:
        """An expression of type int."""
        r = self.random
        if depth == 0 or r.random() < 0.2:
            if names == "ab" or r.random() < 0.6:
                return r.choice(names)
            return str(r.choice(_EDGES)) if r.random() < 0.5 else f"p[{r.randrange(7)}]"
        x, y = self.integer(depth - 1, names), self.integer(depth - 1, names)
        return r.choice(
            (
                f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} & {y})", f"({x} | {y})",
                f"({x} ^ {y})", f"({x} // ({y} | 1))", f"({x} % ({y} | 1))",
                f"({x} << ({y} & 63))", f"({x} >> ({y} & 127))", f"(-{x})", f"(~{x})",
                f"min({x}, {y})", f"max({x}, {y}, 3)", f"abs({x})",
                f"({x} if {self.test(0, names)} else {y})", f"int({self.test(0, names)})",
                f"small[{r.randrange(3)}] + {x}" if names != "ab" else x,
            )
        )  # fmt: skip

    def float(self, depth: int, names: str = "xyz") -> str:
        """An expression of type float."""
        r = self.random
        if depth == 0 or r.random() < 0.2:
            if names == "xy" or r.random() < 0.6:
                return r.choice(names)
            return r.choice(("0.5", "-3.25", "1e10", f"q[{r.randrange(5)}]"))
        x, y = self.float(depth - 1, names), self.float(depth - 1, names)
        return r.choice(
            (
                f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} / {y})", f"(-{x})",
                f"min({x}, {y})", f"max({x}, {y})", f"abs({x})", f"float({self.integer(1, 'ab')})",
                f"({x} * {self.integer(0, 'ab')})", f"({x} if {self.test(0, 'ab')} else {y})",
                f"({self.integer(0, 'ab')} / {self.integer(0, 'ab')})",
            )
        )  # fmt: skip

    def test(self, depth: int, names: str = "abcdk") -> str:
        """An expression of type bool."""
        r = self.random
        x, y = self.integer(0, names), self.integer(0, names)
        op, other = r.choice(("<", "<=", ">", ">=", "==", "!=")), r.choice(("<", "!="))
        if depth == 0:
            return r.choice((f"({x} {op} {y})", "flag", f"(x {op} y)"))
        more = self.test(depth - 1, names)
        return r.choice(
            (
                f"({x} {op} {y} {other} {self.integer(0, names)})",
                f"(not {more})",
                f"({more} and {self.test(depth - 1, names)})",
                f"({x} or {more})" if r.random() < 0.5 else f"({more} or flag)",
                f"({more} ^ flag)",
            )
        )  # fmt: skip
