"""Axis ticks: round numbers that cover a range, and their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers in steps of 1, 2, 2.5 or 5 x 10^k that span [low, high]."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def log_ticks(low: float, high: float, count: int = 7) -> list[float]:
    """Powers of ten, with 2 and 5 between them where few, that span positive [low, high]."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        marks = [f * 10.0**k for k in range(first, last + 1) for f in factors]
        begin = max(i for i, mark in enumerate(marks) if mark <= low * (1 + 1e-9))
        end = min((i for i, m in enumerate(marks) if m >= high * (1 - 1e-9)), default=len(marks))
        marks = marks[begin : max(end, begin + 1) + 1]
        if len(marks) <= count + 1:
            break
    return marks


def whole_ticks(low: int, high: int, count: int = 10) -> list[int]:
    """At most about `count` whole numbers within [low, high], `low` and round steps after it."""
    step = 1
    for candidate in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000):
        step = candidate
        if (high - low) / candidate <= count:
            break
    inner = list(range(math.ceil(low / step) * step, high + 1, step))
    return inner if step == 1 or low in inner else [low, *inner]


def label(value: float, all_ticks: Sequence[float]) -> str:
    """`value` with as many decimals as tell the ticks apart."""
    if len(all_ticks) > 2 and not math.isclose(
        all_ticks[1] - all_ticks[0], all_ticks[2] - all_ticks[1]
    ):
        return f"{value:g}"  # logarithmic
    step = abs(all_ticks[1] - all_ticks[0]) if len(all_ticks) > 1 else abs(value) or 1.0
    for decimals in range(7):
        if abs(round(step, decimals) - step) < step * 1e-6:
            return f"{value + 0.0:.{decimals}f}"
    return f"{value:.3g}"
