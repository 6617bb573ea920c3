"""One line of a program, what a library makes of it, and whether two libraries agree."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import fl_tensor as ft

#: Names of ours that NumPy spells differently.
NUMPY = {
    "cast": "astype",
    "cumulative_prod": "cumprod",
    "cumulative_sum": "cumsum",
    "gather": "take",
    "permute": "permute_dims",
}
KINDS = (ValueError, TypeError, IndexError)
ASSIGNMENT = re.compile(r"(v\d+)(\[.*\])? [-+*]?= ")
#: How many units of the dtype's epsilon a result that is rounded may be off.
ULPS = 32


@dataclass(frozen=True)
class Step:
    """A line of Python in our spelling over the values ``v0, v1, ...``; NumPy's has ``np.`` for
    ``ft.``.

    numpy     NumPy's line, where that is not enough
    role      the letter (``fl_tensor.roles``) by which ``operands`` are promoted, "" if none are
    operands  names of values, and Python scalars
    degree    0: the result is exact, or rounded once; 1: rounding grows with the sum of the
              operands' magnitudes, 2: with their products
    """

    line: str
    numpy: str = ""
    role: str = ""
    operands: tuple[Any, ...] = ()
    degree: int = 0

    @property
    def theirs(self) -> str:
        line = self.numpy or self.line
        return re.sub(r"\bft\.(\w+)", lambda m: f"np.{NUMPY.get(m[1], m[1])}", line)

    @property
    def target(self) -> str:
        """The variable that the line assigns to, or assigns elements of."""
        found = ASSIGNMENT.match(self.line)
        return found[1] if found else ""

    def arrays(self, values: dict[str, Any]) -> list[Any]:
        return [values[o] for o in self.operands if isinstance(o, str)]

    def scalars(self) -> list[Any]:
        return [o for o in self.operands if not isinstance(o, str)]


@dataclass(frozen=True)
class Outcome:
    """What a library made of a line: a value, or an error."""

    value: Any = None
    error: BaseException | None = None
    #: Only shape and dtype count; the elements are unspecified.
    unspecified: bool = False

    @property
    def kinds(self) -> set[type]:
        return {k for k in KINDS if isinstance(self.error, k)}

    def __str__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        if isinstance(self.value, (ft.Tensor, np.ndarray)):
            return f"{self.value.dtype} {self.value.shape} {self.value.tolist()}"
        return repr(self.value)


def evaluate(line: str, values: dict[str, Any]) -> Any:
    """The value of an expression; after an assignment, that of the variable."""
    scope = {"np": np, "ft": ft, **values}
    found = ASSIGNMENT.match(line)
    if not found:
        return eval(line, scope)
    exec(line, scope)
    return scope[found[1]]


def ours(step: Step, values: dict[str, Any]) -> Outcome:
    """Our outcome. Whatever is raised must be an FlError of one of the three kinds; a warning is an
    error, too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return Outcome(evaluate(step.line, values))
    except Exception as error:
        return Outcome(error=error)


def theirs(line: str, values: dict[str, Any]) -> Outcome:
    """NumPy's outcome; ``values`` are left as they are, and the result is a copy."""
    found = ASSIGNMENT.match(line)
    if found:
        values = {**values, found[1]: values[found[1]].copy()}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = evaluate(line, values)
    except Exception as error:
        return Outcome(error=error)
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.array(value, dtype=value.dtype.newbyteorder("="))
    return Outcome(value)


def disagreement(found: Outcome, wanted: Outcome, tolerance: float) -> str:
    """In what the outcomes differ; "" if in nothing."""
    if found.error is not None and not (isinstance(found.error, ft.FlError) and found.kinds):
        return "our error is not an FlError that is also a ValueError, TypeError or IndexError"
    if found.error is not None or wanted.error is not None:
        return "" if found.kinds & wanted.kinds else "one raises, the other does not, or otherwise"
    x, y = found.value, wanted.value
    if not isinstance(x, ft.Tensor):
        return "" if type(x) is type(y) and repr(x) == repr(y) else "the results differ"
    if not isinstance(y, np.ndarray):
        return "only ours is an array"
    if x.shape != y.shape:
        return f"shapes differ: {x.shape} and {y.shape}"
    if x.dtype.name != y.dtype.name:
        return f"dtypes differ: {x.dtype} and {y.dtype}"
    if wanted.unspecified or same(x.numpy(), y):
        return ""
    if y.dtype.kind in "fc":
        relative = ULPS * float(np.finfo(y.dtype).eps)
        if np.allclose(x.numpy(), y, relative, relative * tolerance, equal_nan=True):
            return ""
    return "values differ"


def same(x: Any, y: Any) -> bool:
    """Equal shapes, dtypes and values; NaNs are equal."""
    return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
