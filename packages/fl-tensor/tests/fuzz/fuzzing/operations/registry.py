"""What may come next: every builder of steps, and how it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzzing.draws import Draw
from fuzzing.step import Step

Values = dict[str, Any]
#: Given the draws and NumPy's values: the next step.
Builder = Callable[[Draw, Values], Step]
BUILDERS: list[Builder] = []


def step(weight: int) -> Callable[[Builder], Builder]:
    def register(builder: Builder) -> Builder:
        BUILDERS.extend([builder] * weight)
        return builder

    return register


def next_step(draw: Draw, values: Values) -> Step:
    if not values or (len(values) < 3 and draw.chance(50)):
        return Step(draw.array())
    return draw.one(BUILDERS)(draw, values)


def pick(draw: Draw, values: Values, kinds: str = "biufc") -> str:
    """The name of a value, if possible of those kinds; later ones are likelier."""
    names = [n for n, v in values.items() if v.dtype.kind in kinds] or list(values)
    if draw.chance(5):
        names = list(values)
    return draw.one((*names, names[-1]))
