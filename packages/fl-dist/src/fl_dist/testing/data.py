"""Operands and expectations of the suite, in plain Python: nothing here uses a tensor."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

Spec = tuple[tuple[int, ...], str]  # shape, dtype
Plain = tuple[str, tuple[int, ...], list[Any]]  # dtype, shape, flat values

SHAPES = [(), (0,), (3,), (2, 3), (0, 2), (5, 1, 2)]
DTYPES = ["float32", "int32", "int64", "uint8"]

_STEP: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "mean": lambda x, y: x + y,
    "max": max,
    "min": min,
    "prod": lambda x, y: x * y,
}


def flat(rank: int, spec: Spec) -> list[Any]:
    """Small whole numbers (1 to 3, negative as well where the dtype allows), so that every
    reduction of up to four of them is exact in every dtype."""
    shape, dtype = spec
    values = [(5 * rank + 3 * i + i // 3) % 3 + 1 for i in range(math.prod(shape))]
    if dtype == "bool":
        return [value > 1 for value in values]
    if not dtype.startswith("u"):
        values = [-v if (rank + i) % 4 == 1 else v for i, v in enumerate(values)]
    return [float(v) for v in values] if dtype.startswith("float") else values


def operand(rank: int, spec: Spec) -> Plain:
    return (spec[1], spec[0], flat(rank, spec))


def reduced(ranks: Sequence[int], op: str, spec: Spec) -> Plain:
    """The reduction of the operands of ``ranks``."""
    columns = zip(*(flat(rank, spec) for rank in ranks))
    values = [reduce(_STEP[op], column) for column in columns]
    if op == "mean":
        values = [value / len(ranks) for value in values]
    return (spec[1], spec[0], values)


def rows(x: Plain, first: int, count: int) -> Plain:
    """Rows of axis 0."""
    dtype, shape, values = x
    size = math.prod(shape[1:])
    return (dtype, (count, *shape[1:]), values[first * size : (first + count) * size])


def agrees(got: Any, want: Any) -> bool:
    """``close``, also of lists and of None."""
    if want is None or got is None:
        return got is None and want is None
    if isinstance(want, list):
        return len(got) == len(want) and all(agrees(x, y) for x, y in zip(got, want))
    return close(got, want)


def close(got: Plain, want: Plain) -> bool:
    """Equal dtype and shape, values equal to a few units in the last place of float16."""
    if tuple(got[:2]) != tuple(want[:2]) or len(got[2]) != len(want[2]):
        return False
    return all(math.isclose(x, y, rel_tol=1e-3) for x, y in zip(got[2], want[2]))


def random_bytes(rank: int, dtype: str, count: int) -> bytes:
    """Numbers of very different size: every order of summation rounds differently."""
    source = random.Random(rank)
    values = [source.choice((-1, 1)) * 10 ** source.uniform(-4, 4) for _ in range(count)]
    return struct.pack(f"{count}{'f' if dtype == 'float32' else 'd'}", *values)


def left_fold(world_size: int, op: str, dtype: str, count: int) -> bytes:
    """The bits of ((x0 + x1) + x2) + ... of ``random_bytes``, rounded to ``dtype`` at each step."""
    code = "f" if dtype == "float32" else "d"

    def rounded(value: float) -> float:
        return float(struct.unpack(code, struct.pack(code, value))[0])

    rows = [
        struct.unpack(f"{count}{code}", random_bytes(r, dtype, count)) for r in range(world_size)
    ]
    total = list(rows[0])
    for row in rows[1:]:
        total = [rounded(_STEP[op](x, y)) for x, y in zip(total, row)]
    if op == "mean":
        total = [rounded(value / world_size) for value in total]
    return struct.pack(f"{count}{code}", *total)
