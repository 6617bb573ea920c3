"""Validation of settings in constructors, parameter groups and files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """The values that a setting may have, in words and as a test."""

    words: str
    fits: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fraction(value: Any) -> bool:
    return is_number(value) and 0.0 <= value < 1.0


NUMBER = Kind("a number", is_number)
AT_LEAST_ZERO = Kind("a number that is at least 0", lambda x: is_number(x) and 0 <= x < math.inf)
ABOVE_ZERO = Kind("a number above 0", lambda x: is_number(x) and 0 < x < math.inf)
FRACTION = Kind("a number in [0, 1)", _fraction)
FLAG = Kind("True or False", lambda x: isinstance(x, bool))
WHOLE = Kind("a whole number of at least 0", lambda x: type(x) is int and x >= 0)
COUNT = Kind("a whole number of at least 1", lambda x: type(x) is int and x >= 1)
BETAS = Kind(
    "two numbers in [0, 1)",
    lambda x: isinstance(x, (tuple, list)) and len(x) == 2 and all(map(_fraction, x)),
)


def misfits(kinds: Mapping[str, Kind], values: Mapping[str, Any]) -> list[str]:
    """What is wrong with `values`: each difference in words, ending with the way out."""
    problems = [f"setting {name} is missing" for name in kinds if name not in values]
    for name, value in values.items():
        if name not in kinds:
            problems.append(f"setting {name} is unknown; there are {', '.join(kinds)}")
        elif not kinds[name].fits(value):
            problems.append(f"{name}={value!r}: give {kinds[name].words}")
    return problems


def plain(value: Any) -> Any:
    """A setting as it was before JSON, which has no tuples."""
    return tuple(value) if isinstance(value, list) else value
