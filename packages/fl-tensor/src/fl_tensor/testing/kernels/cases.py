# mypy: disable-error-code="valid-type"
"""A kernel for each construct of the subset, with arguments."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_tensor.kernels import Array, Kernel
from fl_tensor.kernels.types import DTYPES

__all__ = ["CASES", "store_each", "sum_each", "table"]

HASH = 0x9E3779B97F4A7C15
SCALE = 0.25
VERBOSE = False
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


class Table(NamedTuple):
    """A record of everything that records may have."""

    keys: Array[ft.int64]
    limit: int
    values: Array[ft.float32]
    factor: float
    marks: Array[ft.uint8]
    strict: bool


def table() -> Table:
    """A filled one."""
    return Table(
        array("q", [7, -1, 9, 5]),
        3,
        array("f", [0.5, 1.5, -2.5, 4.0]),
        2.0,
        array("B", [0] * 4),
        True,
    )


@ft.kernel
def conditions(x: int, y: float) -> int:
    if x > 3 and y < 1.0:
        return 1
    elif x and not y:
        return 2
    elif y:
        return 3 if 0 < x <= 2 else 4
    return -1


@ft.kernel
def loops(n: int, x: Array[ft.int32]) -> int:
    total = 0
    for i in range(n):
        if x[i] < 0:
            continue
        if x[i] > 90:
            break
        for j in range(i, 0, -2):
            total += x[j] * j
    left = n
    while True:
        left -= 1
        if left < 2:
            break
        total = (total << 1) ^ left
    return total


@ft.kernel
def last_value(n: int) -> int:
    i = -7
    for i in range(2, n, 3):  # noqa: B007
        pass
    for i in range(i, n):  # noqa: B020
        i += 100
    return i


@ft.kernel
def bounds_once(n: int) -> int:
    count = 0
    for _i in range(n):
        n -= 1
        count += 1
    return count * 100 + n


@ft.kernel
def ends(a: int, b: int) -> int:
    """Loops that end beside the ends of int64."""
    count = 0
    for _i in range(a, b, 5):
        count += 1
    for _i in range(b, a, -7):
        count += 100
    return count


@ft.kernel
def strides(a: int, b: int) -> int:
    total = 0
    for i in range(a, b, 0x3FFFFFFFFFFFFFFF):
        total = total * 3 + (i >> 60)
    return total


@ft.kernel
def constants() -> float:
    if VERBOSE:
        return 0.0
    return (HASH >> 60) + SCALE + math.pi + (-math.inf if HASH > 0 else 1.0)


@ft.kernel
def mixed(n: int, x: float, flag: bool) -> float:
    y: float = n
    total = n * x + flag + max(n, x) - min(1, 2.5, x) + (n if flag else x)
    y += int(total) / 2
    return total if y == n else y + True


@ft.kernel
def bools(x: bool, y: bool, n: int) -> bool:
    z = (x & y) | (x ^ y)
    w = n > 2
    return z != w and bool(n) or (x + y + True > 2)


@ft.kernel
def record(of: Table, key: int) -> float:
    keys = of.keys
    for i in range(len(keys)):
        if keys[i] == key and i <= of.limit:
            of.marks[i] += 1
            return of.values[i] * of.factor
    return -1.0 if of.strict else 0.0


@ft.kernel
def fill(x: Array[ft.float32], first: int, value: float) -> None:
    if first >= len(x):
        return
    for i in range(first, len(x)):
        x[i] = value


@ft.kernel
def swap(x: Array[ft.int64], i: int, j: int) -> int:
    old = x[i]
    x[i] = x[j]
    x[j] = old
    return old


@ft.kernel
def callees(of: Table, n: int) -> float:
    total = 0.0
    for k in range(n):
        total += record(of, k + 5)
    fill(of.values, 2, n)
    if swap(of.keys, 0, swap(of.keys, 1, 2) + 1) == 7:
        total += of.values[2]
    return total + record(of, of.keys[0])


@ft.kernel
def both(x: Array[ft.int64], y: Array[ft.int64]) -> int:
    """The same array twice."""
    for i in range(1, len(x)):
        x[i] = y[i - 1] + 1
    return y[len(y) - 1]


@ft.kernel
def order(x: Array[ft.int64], n: int) -> int:
    """What is evaluated, and in which order, shows in ``x``."""
    a = swap(x, 0, 1) if n > 0 else swap(x, 1, 2)
    if n > 1 or swap(x, 0, 2) > 3:
        a += x[n] if n < len(x) else 100
    if n < 0 and swap(x, 1, 2) == 5:
        a += 1000
    x[swap(x, 0, 1) & 1] = swap(x, 1, 2) * 10
    return a + (swap(x, 0, 1) - swap(x, 1, 2)) * (1 if 0 < swap(x, 0, 2) < swap(x, 0, 1) else 7)


@ft.kernel
def roots(x: Array[ft.float64]) -> float:
    total = 0.0
    for i in range(len(x)):
        total = total * 0.5 + sqrt(x[i]) - x[i] / 3.0
    return total


def _dtype_kernels(dtype: str) -> tuple[Kernel, Kernel]:
    kind = Array[dtype]

    @ft.kernel
    def sum_each(x: kind, y: Array[ft.float64]) -> float:
        total = 0.0
        for i in range(len(x)):
            total += x[i]
            y[i] = x[i]
        return total

    @ft.kernel
    def store_each(x: kind, y: Array[ft.int64]) -> None:
        for i in range(len(y)):
            x[i] = y[i]

    return sum_each, store_each


_made = {str(d): _dtype_kernels(str(d)) for d in DTYPES}
#: By dtype: a kernel that reads an array of it, and one that stores int64 in it.
sum_each = {name: pair[0] for name, pair in _made.items()}
store_each = {name: pair[1] for name, pair in _made.items()}


def _ints(*values: int, kind: str = "q") -> Any:
    return array(kind, values)


#: By name: the kernel, and the arguments of each call.
CASES: dict[str, tuple[Kernel, Callable[[], list[tuple[Any, ...]]]]] = {
    "conditions": (
        conditions,
        lambda: [(x, y) for x in (-1, 0, 1, 2, 5) for y in (0.0, -0.0, 0.5, 2.0, math.nan)],
    ),
    "loops": (loops, lambda: [(n, _ints(3, -4, 5, 6, 99, 2, kind="i")) for n in range(7)]),
    "last value": (last_value, lambda: [(n,) for n in (-1, 0, 2, 3, 9)]),
    "bounds once": (bounds_once, lambda: [(n,) for n in (-1, 0, 5)]),
    "ends": (ends, lambda: [(a, a + n) for a in (_LOW, 0, _HIGH - 9) for n in (0, 1, 5, 9)]),
    "strides": (strides, lambda: [(_LOW, _HIGH), (_HIGH, _LOW), (0, _HIGH), (_LOW, 0)]),
    "constants": (constants, lambda: [()]),
    "mixed": (
        mixed,
        lambda: [(n, x, f) for n in (-3, 0, 4) for x in (0.0, -1.5, 7.25) for f in (True, False)],
    ),
    "bools": (
        bools,
        lambda: [(x, y, n) for x in (True, False) for y in (True, False) for n in (0, 1, 3)],
    ),
    "record": (record, lambda: [(table(), key) for key in (7, 9, 5, 1)]),
    "no result": (fill, lambda: [(array("f", [1.0] * 4), k, 0.1) for k in (0, 3, 4)]),
    "callees": (callees, lambda: [(table(), n) for n in (0, 3, 5)]),
    "both": (both, lambda: [(_ints(1, 5, 9), _ints(2, 3, 4)), (same := _ints(1, 5, 9), same)]),
    "order": (order, lambda: [(_ints(3, 5, 9), n) for n in (-2, -1, 0, 1, 2, 3, 1 << 40)]),
    "roots": (roots, lambda: [(array("d", [2.0, 1e-310, 1e300, 0.1, 3.0]),)]),
    "no elements": (roots, lambda: [(array("d"),)]),
}
