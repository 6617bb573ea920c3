"""Normalisation of arguments other than arrays: numbers, axes, shapes."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, AxisError, DTypeError, ShapeError

__all__ = [
    "MOST", "Pairs", "SCALARS", "axes", "axis_of", "choice_of", "either", "flag_of", "float_of",
    "function_of", "int_of", "ints_of", "is_single", "pairs_of", "per_axis", "refuse", "scalar",
    "seed_of", "several_of", "shape_of",
]  # fmt: skip

#: The Python numbers: weak beside an array (``fl_tensor.dtypes.result_for_scalar``).
SCALARS = (bool, int, float, complex)
#: The largest size of an axis: what an int64 counts.
MOST = (1 << 63) - 1
_INTS = frozenset((int,))
#: Classes of numbers that stay what they are beside floating arrays (``graph.host_numbers``).
SYMBOLS: set[type[Any]] = set()
#: One int for all, one per axis, or a (low, high) pair per axis.
Pairs = int | Sequence[int] | Sequence[tuple[int, int]]


def scalar(op: str, value: Any, dtype: DType) -> Any:
    """A number as the Python scalar of a dtype's kind; floats truncate towards zero for integers.
    Raises DTypeError for what the dtype cannot hold."""
    try:
        if value is None or isinstance(value, (str, bytes)):
            raise TypeError("not a number")
        if dtype.is_floating:
            return value.as_float() if value.__class__ in SYMBOLS else float(value)
        if dtype.kind in "bc":
            return bool(value) if dtype.kind == "b" else complex(value)
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"[{op}] the value {value!r} does not fit {dtype}: {error}") from None
    dtypes.result_for_scalar(dtype, number, op)
    return number


def flag_of(op: str, value: Any, name: str) -> bool:
    """An argument that is True or False, of Python or of another library. Raises ArgumentError for
    what has a truth, but is none: a number, a string, a list."""
    if isinstance(value, bool):
        return value
    if getattr(value, "shape", None) == () and str(getattr(value, "dtype", "")).endswith("bool"):
        return bool(value)
    raise ArgumentError(f"[{op}] {name} {value!r}: expected True or False")


def function_of(op: str, value: Any, name: str = "function") -> Any:
    """An argument that can be called. Raises DTypeError."""
    if not callable(value):
        raise DTypeError(f"[{op}] {name} {value!r}: expected a function")
    return value


def several_of(op: str, value: Any, name: str, kind: type, what: str) -> list[Any]:
    """An argument that is a sequence, or another iterable, of objects of one class. Raises
    DTypeError; ``what`` says in words what is expected."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise DTypeError(f"[{op}] {name} {value!r}: expected {what}")
    found = list(value)
    wrong = [x for x in found if not isinstance(x, kind)]
    if wrong:
        raise DTypeError(f"[{op}] {name} hold {wrong[0]!r}: expected {what}")
    return found


def choice_of(op: str, value: Any, name: str, choices: Collection[str]) -> str:
    """An argument that is one of several words. Raises ArgumentError, which lists them."""
    if isinstance(value, str) and value in choices:
        return value
    known = ", ".join(map(repr, choices))
    raise ArgumentError(f"[{op}] {name} {value!r}: expected {known}")


def either(op: str, name: str, value: Any, other: str, same: Any, default: Any = None) -> Any:
    """An argument that has two names, by the first of them ``default`` unless given. Raises
    ArgumentError where both are given."""
    if same is None:
        return value
    if value is not default and (default is None or value != default):
        raise ArgumentError(f"[{op}] {name} and {other} are the same argument: give one of them")
    return same


def int_of(op: str, value: Any, name: str) -> int:
    """An argument that is one int. Raises DTypeError."""
    try:
        return _index(value)
    except TypeError:
        raise DTypeError(f"[{op}] {name} {value!r}: expected an int") from None


def seed_of(op: str, value: Any) -> int:
    """A seed of 64 bits. Raises DTypeError for what is no int, ArgumentError for one that is
    negative or larger."""
    number = int_of(op, value, "seed")
    if not 0 <= number < 1 << 64:
        raise ArgumentError(f"[{op}] seed {number}: a seed has 64 bits, 0 .. 2**64 - 1")
    return number


def _index(value: Any) -> int:
    if isinstance(value, bool):  # an int to Python, but a slip where a size or an axis is meant
        raise TypeError
    return operator.index(value)


def is_single(value: Any) -> bool:
    """Whether an argument is one thing and no sequence: numbers, strings, arrays without axes."""
    return (
        not hasattr(value, "__iter__")
        or isinstance(value, str)
        or getattr(value, "shape", None) == ()
    )


def ints_of(op: str, value: Any, name: str) -> tuple[int, ...]:
    """An argument that is one int or several, as a tuple. Raises DTypeError."""
    if type(value) is tuple and _INTS.issuperset(map(type, value)):
        return value
    if type(value) is int:
        return (value,)
    try:
        if isinstance(value, (dict, set, frozenset, bytes, bytearray)):
            raise TypeError
        return tuple(_index(n) for n in ((value,) if is_single(value) else value))
    except TypeError:
        raise DTypeError(f"[{op}] {name} {reprlib.repr(value)}: expected ints") from None


def float_of(op: str, value: Any, name: str) -> float:
    """An argument that is a number. Raises DTypeError, also for numbers in strings."""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise DTypeError(f"[{op}] {name} {value!r}: expected a number") from None


def axis_of(op: str, axis: int, shape: Sequence[int], name: str = "axis") -> int:
    """``axis`` counted from the front. Raises AxisError (a ShapeError and an IndexError) when it is
    out of range."""
    number = axis if type(axis) is int else int_of(op, axis, name)
    rank = len(shape)
    if not -rank <= number < rank:
        raise AxisError(f"[{op}] x {tuple(shape)}: {name} {number} is out of range for {rank} axes")
    return number % rank


def axes(op: str, axis: int | Sequence[int] | None, shape: Sequence[int]) -> tuple[int, ...]:
    """Axes counted from the front, in increasing order; None means all. Duplicates are refused."""
    if axis is None:
        return tuple(range(len(shape)))
    if type(axis) is int:
        return (axis_of(op, axis, shape),)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(given) == 1:
        return (axis_of(op, given[0], shape),)
    found = [axis_of(op, a, shape) for a in given]
    if len(set(found)) != len(found):
        raise ShapeError(f"[{op}] x {tuple(shape)}: axis {tuple(given)} names one axis twice")
    return tuple(sorted(found))


def shape_of(op: str, shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape as a tuple of non-negative ints. Raises ShapeError or DTypeError."""
    found = ints_of(op, shape, "shape")
    if found and min(found) < 0:
        raise ShapeError(f"[{op}] shape {found}: sizes may not be negative")
    if found and max(found) > MOST:
        raise ShapeError(f"[{op}] shape {found}: no array has so many elements")
    return found


def per_axis(op: str, value: int | Sequence[int], n: int, name: str) -> tuple[int, ...]:
    """An argument that is one int for all of ``n`` axes, or one for each."""
    found = ints_of(op, value, name)
    if is_single(value):
        return found * n
    if len(found) != n:
        raise ShapeError(
            f"[{op}] {name} {value!r}: expected an int, or one int for each of {n} axes"
        )
    return found


def pairs_of(op: str, value: Any, n: int, name: str) -> tuple[tuple[int, int], ...]:
    """An argument that is a (low, high) pair per axis, with an int for a pair of equals or for
    all pairs; one pair is enough for ``widths``."""
    if is_single(value):
        number = int_of(op, value, name)
        return ((number, number),) * n
    given = list(value)
    alone = [is_single(v) for v in given]
    pairs = [ints_of(op, v, name) * (2 if one else 1) for v, one in zip(given, alone, strict=True)]
    if name == "widths" and alone == [True, True]:
        return ((pairs[0][0], pairs[1][0]),) * n
    if len(pairs) != n or any(len(p) != 2 for p in pairs):
        raise ShapeError(
            f"[{op}] {name} {value!r}: expected an int, or an int or pair for each of {n} axes"
        )
    return tuple((low, high) for low, high in pairs)


def refuse(function: str, foreign: Mapping[str, Any]) -> NoReturn:
    """Raise DTypeError for arguments that a function does not have, with ours in their place."""
    from fl_tensor.foreign_names import keywords

    keywords.refuse(function, foreign)
