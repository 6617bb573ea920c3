"""Functions of Python numbers with the results of IEEE 754 where Python raises."""

from __future__ import annotations

import math
import operator as op
from collections.abc import Callable
from math import copysign, inf, isfinite, nan
from typing import Any

Function = Callable[..., Any]


def guarded(function: Function, otherwise: Function = lambda *_: nan) -> Function:
    """`function`, and `otherwise` for the operands that it refuses."""

    def safe(*operands: Any) -> Any:
        try:
            return function(*operands)
        except (OverflowError, ValueError, ZeroDivisionError):
            return otherwise(*operands)

    return safe


def _power_limit(x: float, y: float) -> float:
    if x < 0 and isfinite(y) and y != y // 1:
        return nan
    return copysign(inf, x) if isfinite(y) and y % 2 == 1 else inf  # too large, or 1 / 0


def _quotient_limit(x: float, y: float) -> float:
    return nan if x == 0 or x != x else copysign(inf, x) * copysign(1.0, y)


def _floor(x: float) -> float:
    return x // 1.0 if isfinite(x) else x


UNARY: dict[str, Function] = {
    "negative": op.neg,
    "absolute": abs,
    "sign": lambda x: x if x != x else (x > 0) - (x < 0),
    "exp": guarded(math.exp, lambda x: inf),
    "expm1": guarded(math.expm1, lambda x: inf),
    "log": guarded(math.log, lambda x: -inf if x == 0 else nan),
    "log1p": guarded(math.log1p, lambda x: -inf if x == -1 else nan),
    "sqrt": guarded(math.sqrt),
    "sin": guarded(math.sin),
    "cos": guarded(math.cos),
    "tanh": math.tanh,
    "erf": math.erf,
    "floor": _floor,
    "ceil": lambda x: -_floor(-x),
    "round": guarded(lambda x: copysign(round(x), x), lambda x: x),
}
BINARY: dict[str, Function] = {
    "divide": guarded(op.truediv, _quotient_limit),
    "floor_divide": guarded(lambda x, y: nan if abs(x) == inf else x // y, _quotient_limit),
    "remainder": guarded(op.mod),
    "power": guarded(math.pow, _power_limit),
    "atan2": math.atan2,
    "maximum": lambda x, y: x if x >= y or x != x else y,
    "minimum": lambda x, y: x if x <= y or x != x else y,
    **dict(add=op.add, subtract=op.sub, multiply=op.mul, equal=op.eq, less=op.lt),
    **dict(bitwise_and=op.and_, bitwise_or=op.or_, bitwise_xor=op.xor),
    **dict(bitwise_left_shift=op.lshift, bitwise_right_shift=op.rshift),
}
#: Where integers differ: exact, and without an IEEE value to fall back on.
INTEGER: dict[str, Function] = {
    "floor_divide": guarded(op.floordiv, lambda x, y: 0),
    "remainder": guarded(op.mod, lambda x, y: 0),
    "power": lambda x, y: pow(x, y, 1 << 64) if y >= 0 else 0,
}


def rank(number: Any) -> tuple[bool, Any]:
    """A sort key that puts NaN after every number."""
    return number != number, number


def philox(seed: int, block: int) -> list[int]:
    """Four 32-bit words of Philox 4x32-10 (Salmon et al., SC 2011)."""
    low = (1 << 32) - 1
    c0, c1, c2, c3, k0, k1 = block & low, block >> 32 & low, 0, 0, seed & low, seed >> 32 & low
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & low, (p0 >> 32) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return [c0, c1, c2, c3]
