"""Numbers of the host that change from step to step: symbols while a function is captured.

A learning rate, a step count or the offset of a random stream is a number of Python. A graph that
holds its value would repeat one step for ever. So while a function is captured, such a number is a
``HostNumber`` or ``HostInteger``: it has the value of this step, and keeps the expression that it
was computed by. A compiled function evaluates the expressions again at each call.

Python code may decide by such a number. Comparisons and conversions then note a guard: an
expression and the value that it had. Where a guard has another value, the function is captured
again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fl_tensor.arguments import SYMBOLS

__all__ = ["HostExpression", "HostNumber", "Recorder", "evaluator", "expression_of"]


class HostExpression(NamedTuple):
    """A parameter of a node that is computed anew at each call, as Python source over the names of
    host numbers."""

    source: str

    def __str__(self) -> str:
        return self.source


class Recorder:
    """The guards of one capture: source and value."""

    def __init__(self) -> None:
        self.guards: dict[str, Any] = {}

    def number(self, value: Any, source: str) -> Any:
        """A symbol for ``value``; what is no real number stays as it is."""
        if type(value) not in (int, float):
            return value
        made = float.__new__(HostNumber, value)
        made.source, made.recorder = source, self
        return made

    def guard(self, source: str, value: Any) -> Any:
        """Note that the function depends on this value of an expression; returns the value."""
        self.guards[source] = value
        return value


def _plain(x: Any) -> Any:
    # The number without its expression.
    return float.__float__(x) if isinstance(x, HostNumber) else x


def _source(x: Any) -> str:
    if isinstance(x, HostNumber):
        return x.source
    return f"({x!r})" if x < 0 else repr(x)


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any], reflected: bool = False) -> Any:
    def compute(self: HostNumber, other: Any, modulus: Any = None) -> Any:
        if modulus is not None or not isinstance(other, (int, float)):
            return NotImplemented
        left, right = (other, self) if reflected else (self, other)
        source = f"({_source(left)} {symbol} {_source(right)})"
        value = function(_plain(left), _plain(right))
        if type(value) in (int, float):
            return self.recorder.number(value, source)
        return self.recorder.guard(source, value)  # complex: a root of a negative number

    return compute


def _comparison(symbol: str, function: Callable[[Any, Any], bool]) -> Any:
    def compare(self: HostNumber, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        source = f"({_source(self)} {symbol} {_source(other)})"
        return self.recorder.guard(source, function(_plain(self), _plain(other)))

    return compare


def _of_one(name: str, function: Callable[[Any], Any]) -> Any:
    def compute(self: HostNumber) -> Any:
        return self.recorder.number(function(_plain(self)), f"{name}({self.source})")

    return compute


class HostNumber(float):
    """A number that knows how it was computed; of an int, too, as Python computes a power of a
    float and an int without asking the int. A conversion to a plain number fixes the value."""

    __slots__ = ("recorder", "source")

    source: str
    recorder: Recorder

    __add__ = _arithmetic("+", operator.add)
    __radd__ = _arithmetic("+", operator.add, True)
    __sub__ = _arithmetic("-", operator.sub)
    __rsub__ = _arithmetic("-", operator.sub, True)
    __mul__ = _arithmetic("*", operator.mul)
    __rmul__ = _arithmetic("*", operator.mul, True)
    __truediv__ = _arithmetic("/", operator.truediv)
    __rtruediv__ = _arithmetic("/", operator.truediv, True)
    __floordiv__ = _arithmetic("//", operator.floordiv)
    __rfloordiv__ = _arithmetic("//", operator.floordiv, True)
    __mod__ = _arithmetic("%", operator.mod)
    __rmod__ = _arithmetic("%", operator.mod, True)
    __pow__ = _arithmetic("**", operator.pow)
    __rpow__ = _arithmetic("**", operator.pow, True)
    __lt__ = _comparison("<", operator.lt)
    __le__ = _comparison("<=", operator.le)
    __gt__ = _comparison(">", operator.gt)
    __ge__ = _comparison(">=", operator.ge)
    __eq__ = _comparison("==", operator.eq)
    __ne__ = _comparison("!=", operator.ne)
    __neg__ = _of_one("-", operator.neg)
    __abs__ = _of_one("abs", operator.abs)

    def __pos__(self) -> Any:
        return self

    def as_float(self) -> Any:
        """As ``float(self)``, still a symbol."""
        return self.recorder.number(float(_plain(self)), f"float({self.source})")

    def fixed(self) -> Any:
        """The plain number, under the guard that it stays the same."""
        value = _plain(self)
        return self.recorder.guard(self.source, value)

    def __bool__(self) -> bool:
        return bool(self.recorder.guard(f"bool({self.source})", bool(_plain(self))))

    def __hash__(self) -> int:
        return hash(self.fixed())

    def __float__(self) -> float:
        return float(self.fixed())

    def __int__(self) -> int:
        return int(self.fixed())

    __trunc__ = __int__

    __index__ = __int__

    def __round__(self, digits: Any = None) -> Any:
        return round(self.fixed(), digits)


def expression_of(value: Any) -> Any:
    """``value`` with a ``HostExpression`` in the place of each symbol; tuples are searched."""
    if isinstance(value, HostNumber):
        return HostExpression(value.source)
    return tuple(map(expression_of, value)) if type(value) is tuple else value


SYMBOLS.add(HostNumber)
#: What expressions may name beside host numbers.
NAMES = {
    "__builtins__": {},
    "abs": abs,
    "bool": bool,
    "float": float,
    "inf": float("inf"),
    "nan": float("nan"),
}


def evaluator(sources: Iterable[str], names: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """A function of the numbers with these names that returns the values of the expressions."""
    body = "".join(f"{source}, " for source in sources)
    made: Callable[..., tuple[Any, ...]] = eval(f"lambda {', '.join(names)}: ({body})", dict(NAMES))
    return made
