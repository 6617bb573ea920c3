"""What steps are made of: arrays, shapes, axes, partners that broadcast. Mostly right, sometimes
not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
SCALARS = (1, 2, 0, -1, 3, 0.5, -2.5, True, False, 1e10, 7, 100, 300, 2**40, -(2**63), 1j, 2 - 0.5j)
#: Sizes of literals are kept small: what is wrong shows in few elements.
MOST = 48


class Draw:
    """Choices, as Hypothesis makes them."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def one(self, options: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) >= 100 - percent

    # ---- arrays ------------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        rank = self.one((1, 2, 2, 3, 0, 1, 3, 4, 5))
        shape = tuple(self.one((2, 3, 1, 4, 2, 3, 0)) for _ in range(rank))
        while math.prod(shape) > MOST:
            shape = shape[1:]
        return shape

    def dtype(self) -> str:
        return self.one(("float32", "int64", "bool", "int32", *DTYPES))

    def array(self, shape: Sequence[int] | None = None, dtype: str | None = None) -> str:
        """An expression that makes an array of either library."""
        shape = self.shape() if shape is None else tuple(shape)
        dtype = self.dtype() if dtype is None else dtype
        return f"ft.asarray({literal(self.values(math.prod(shape), dtype), shape, dtype)})"

    def values(self, count: int, dtype: str) -> list[Any]:
        return random.Random(self.integer(0, 255)).choices(_pool(dtype), k=count)

    def scalar(self) -> Any:
        return self.one(SCALARS)

    def partner(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts with ``shape``."""
        kept = list(shape[self.integer(0, len(shape)) :] if self.chance(30) else shape)
        for i in range(len(kept)):
            if self.chance(25):
                kept[i] = 1
        if self.chance(15) and math.prod(kept) * 2 <= MOST:
            kept.insert(0, 2)
        return tuple(kept)

    # ---- arguments ---------------------------------------------------------------------------

    def axis(self, rank: int) -> Any:
        if self.chance(4):
            return self.one((rank, -rank - 1, 0, 7, "0.0", "'a'"))
        return self.place(rank)

    def place(self, rank: int) -> int:
        """An axis that is right: beside a wrong one, or it were open which is told."""
        return self.integer(-rank, rank - 1) if rank else 0

    def axes(self, rank: int) -> Any:
        """None, an axis, or several."""
        form = self.one((None, 1, 1, 2, 3))
        if form is None:
            return None
        if form == 1 or not rank:
            return self.axis(rank)
        count = min(form, rank)
        found = random.Random(self.integer(0, 99)).sample(range(rank), count)
        if self.chance(4):
            found.append(found[0])
        return tuple(a - rank if self.chance(30) else a for a in found)

    def factors(self, size: int) -> tuple[int, ...]:
        """A shape of ``size`` elements."""
        if size == 0:
            return self.one(((0,), (0, 2), (3, 0), (2, 0, 1)))
        shape = []
        while size > 1 and len(shape) < 3 and self.chance(80):
            factor = self.one([n for n in range(1, size + 1) if size % n == 0])
            shape.append(factor)
            size //= factor
        return (*shape, size) if size > 1 or self.chance(30) else tuple(shape)


def literal(values: Sequence[Any], shape: Sequence[int], dtype: str) -> str:
    text = ", ".join(_number(v) for v in values)
    made = f"np.array([{text}], '{dtype}')"
    return made if tuple(shape) == (len(values),) else f"{made}.reshape({tuple(shape)})"


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "-np.inf" if value < 0 else f"np.{value}"
    return repr(value)


def _pool(dtype: str) -> list[Any]:
    if dtype == "bool":
        return [False, True]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        wanted = [0, 1, 2, 3, 1, 2, 5, -1, -2, -7, 100, int(info.max), int(info.min)]
        return [v for v in wanted if info.min <= v <= info.max]
    if dtype in COMPLEX:
        return [0j, 1 + 0j, 1j, 0.5 - 2j, -1 - 1j, 2 + 3j, complex(-0.0, 1), complex(math.nan, 1)]
    usual = [0.0, 1.0, 0.5, -0.5, 2.0, -1.0, 3.0, -2.5, 0.25, 7.0, -0.0, 100.0]
    return [*usual, math.inf, -math.inf, math.nan]
