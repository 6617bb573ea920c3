"""Expressions of host numbers that come from outside: checked before anything computes them.

Allowed are numbers, the names of a file, ``abs``, ``bool`` and ``float``, arithmetic and
comparisons. A power of two ints may have millions of digits, so one of its operands has to be a
float, or its exponent a small number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping

from fl_tensor.errors import ArgumentError
from fl_tensor.graph.host_numbers import NAMES

__all__ = ["check", "floats_of", "names_in"]

#: Characters, and steps from the whole to a number.
MOST, DEPTH = 4000, 64
#: The digits of an int, and its largest power.
_DIGITS, _POWER = 20, 8
_CHARACTERS = re.compile(r"[\w+\-*/%<>=!(). ]*", re.ASCII)
_SYMBOL = re.compile(r"\bn\d{1,9}\b")
_FUNCTIONS = frozenset(name for name, value in NAMES.items() if callable(value))
_NUMBERS = frozenset(name for name, value in NAMES.items() if isinstance(value, float))
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_SIGNS = (ast.USub, ast.UAdd)


def names_in(source: str) -> set[str]:
    """The names of host numbers in an expression."""
    return set(_SYMBOL.findall(source))


def check(source: object, names: Collection[str], floats: Collection[str] = ()) -> str:
    """``source``, if it is an expression over ``names``, of which ``floats`` are floats at every
    call. Raises ArgumentError."""
    if not isinstance(source, str):
        raise ArgumentError(f"an expression is a {type(source).__name__}")
    try:
        _Expression(names, floats).check(_parsed(source), 0)
    except ArgumentError as error:
        shown = source if len(source) < 80 else f"{source[:77]}..."
        raise ArgumentError(f"the expression {shown!r} {error}") from None
    return source


def floats_of(values: Mapping[str, object], updates: Mapping[str, str]) -> set[str]:
    """Which of the numbers are floats at every call: those that are now, and whose ``updates`` are
    floats where these are."""
    found = {name for name, value in values.items() if type(value) is float}
    while True:
        known = _Expression(values, found)
        kept = {n for n in found if n not in updates or known.is_float(_parsed(updates[n]))}
        if kept == found:
            return found
        found = kept


def _parsed(source: str) -> ast.expr:
    if len(source) > MOST:
        raise ArgumentError(f"has {len(source)} characters, more than the {MOST} allowed")
    if not _CHARACTERS.fullmatch(source):
        raise ArgumentError("has characters that no expression of numbers has")
    # Each bracket is a step of the parser's own recursion.
    if source.count("(") > 8 * DEPTH:
        raise ArgumentError("has too many brackets")
    try:
        return ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ArgumentError("is none of numbers") from None


class _Expression:
    def __init__(self, names: Collection[str], floats: Collection[str]) -> None:
        self.names, self.floats = names, floats

    def check(self, tree: ast.expr, depth: int) -> None:
        if depth > DEPTH:
            raise ArgumentError(f"is nested more than {DEPTH} deep")
        for part in self.parts(tree):
            self.check(part, depth + 1)
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
            self.check_power(tree)

    def parts(self, tree: ast.expr) -> list[ast.expr]:
        if isinstance(tree, ast.Constant):
            if tree.value is not None and type(tree.value) not in (int, float, bool):
                raise ArgumentError(f"has a {type(tree.value).__name__}")
            if type(tree.value) is int and tree.value >= 10**_DIGITS:
                raise ArgumentError(f"has an int of more than {_DIGITS} digits")
            return []
        if isinstance(tree, ast.Name):
            if tree.id not in self.names and tree.id not in _NUMBERS:
                raise ArgumentError(f"names {tree.id[:40]!r}, which is no number of the file")
            return []
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, _ARITHMETIC):
            return [tree.left, tree.right]
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, _SIGNS):
            return [tree.operand]
        if isinstance(tree, ast.Compare) and all(isinstance(op, _COMPARISONS) for op in tree.ops):
            return [tree.left, *tree.comparators]
        if (
            isinstance(tree, ast.Call)
            and isinstance(tree.func, ast.Name)
            and tree.func.id in _FUNCTIONS
            and len(tree.args) == 1
            and not tree.keywords
            and not isinstance(tree.args[0], ast.Starred)
        ):
            return tree.args
        raise ArgumentError(f"has a {type(tree).__name__}, which no expression of numbers has")

    def check_power(self, tree: ast.BinOp) -> None:
        if self.is_float(tree.left) or self.is_float(tree.right):
            return
        small = isinstance(tree.right, ast.Constant) and type(tree.right.value) is int
        if not small or tree.right.value > _POWER:  # type: ignore[attr-defined]
            raise ArgumentError("has a power of ints without a small exponent")
        if any(isinstance(part, ast.Pow) for part in ast.walk(tree.left)):
            raise ArgumentError("has a power of a power of ints")

    def is_float(self, tree: ast.expr) -> bool:
        """Whether it can be no int."""
        if isinstance(tree, ast.Constant):
            return type(tree.value) is float
        if isinstance(tree, ast.Name):
            return tree.id in self.floats or tree.id in _NUMBERS
        if isinstance(tree, ast.UnaryOp):
            return self.is_float(tree.operand)
        if isinstance(tree, ast.BinOp):
            either = self.is_float(tree.left) or self.is_float(tree.right)
            return either or isinstance(tree.op, ast.Div)
        if isinstance(tree, ast.Call):
            name = tree.func.id if isinstance(tree.func, ast.Name) else ""
            return name == "float" or (name == "abs" and self.is_float(tree.args[0]))
        return False
