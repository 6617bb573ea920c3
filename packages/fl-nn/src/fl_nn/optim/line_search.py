"""A line search for the strong Wolfe conditions.

Nocedal & Wright, Numerical Optimization, 2nd edition, algorithms 3.5 and 3.6, with cubic
interpolation (3.59).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Point", "strong_wolfe"]

#: The growth of a step that is too short.
_LEAST_GROWTH, _MOST_GROWTH = 1.1, 10.0
#: A trial keeps this share of the bracket away from its ends.
_MARGIN = 0.1


class Point(NamedTuple):
    """A step along the direction, the value there, and the derivative along the direction."""

    step: float
    value: float
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    step: float,
    *,
    decrease: float = 1e-4,
    curvature: float = 0.9,
    least_width: float = 1e-9,
    most: int = 25,
) -> Point:
    """A point where ``value <= start.value + decrease * step * start.slope`` and
    ``|slope| <= curvature * |start.slope|``.

    evaluate     the point at a step
    start        the point at step 0, with a negative slope
    step         the first trial
    least_width  a bracket that is not wider than this is not divided further
    most         evaluations at most

    Gives the lowest point that was found where the conditions cannot be met, which is `start` if
    nothing is lower. A value that is not finite counts as too high.
    """
    search = _Search(evaluate, start, decrease, curvature, least_width, most)
    before = start
    while search.left:
        point = search.at(step)
        if search.is_too_high(point) or (before is not start and point.value >= before.value):
            return search.zoom(before, point)
        if search.is_flat(point):
            return point
        if point.slope >= 0.0:
            return search.zoom(point, before)
        least, largest = _LEAST_GROWTH * point.step, _MOST_GROWTH * point.step
        step = min(max(_minimum(before, point, largest), least), largest)
        before = point
    return before


class _Search:
    def __init__(
        self,
        evaluate: Callable[[float], Point],
        start: Point,
        decrease: float,
        curvature: float,
        least_width: float,
        most: int,
    ) -> None:
        self.evaluate, self.start = evaluate, start
        self.decrease, self.curvature = decrease, curvature
        self.least_width, self.left = least_width, most

    def at(self, step: float) -> Point:
        self.left -= 1
        return self.evaluate(step)

    def is_too_high(self, point: Point) -> bool:
        bound = self.start.value + self.decrease * point.step * self.start.slope
        return not point.value <= bound

    def is_flat(self, point: Point) -> bool:
        return abs(point.slope) <= -self.curvature * self.start.slope

    def zoom(self, low: Point, high: Point) -> Point:
        """`low` has the lowest value so far that is low enough, and falls towards `high`."""
        while self.left and abs(high.step - low.step) > self.least_width:
            point = self.at(_inside(low, high))
            if self.is_too_high(point) or point.value >= low.value:
                high = point
                continue
            if self.is_flat(point):
                return point
            if point.slope * (high.step - low.step) >= 0.0:
                high = low
            low = point
        return low


def _inside(a: Point, b: Point) -> float:
    # The minimum of the cubic, or a point near it that is not at an end of the bracket.
    low, high = min(a.step, b.step), max(a.step, b.step)
    margin = _MARGIN * (high - low)
    return min(max(_minimum(a, b, 0.5 * (low + high)), low + margin), high - margin)


def _minimum(a: Point, b: Point, otherwise: float) -> float:
    """The step where the cubic through two points has its minimum; `otherwise` if it has none, or
    if its coefficients are not finite."""
    first = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.step - b.step)
    square = first * first - a.slope * b.slope
    if not 0.0 <= square < math.inf:
        return otherwise
    second = math.copysign(math.sqrt(square), b.step - a.step)
    divisor = b.slope - a.slope + 2.0 * second
    if not divisor:
        return otherwise
    return b.step - (b.step - a.step) * (b.slope + second - first) / divisor
