"""Sole-ownership checks by reference counts.

CPython counts the references to every object. A value may be written in place if the backend holds
the only one. ``sys.getrefcount`` counts variables, containers and attributes, and besides these the
references that the calls on the way to it hold. How many these are depends on the version of the
interpreter. So each place that counts is calibrated when its module is loaded:

1. The function that counts is called as in earnest, with an object that nothing else holds. Its
   answer is the count to compare with.
2. The same is done with one and with two further holders. They must raise the count by one each.

If they do not, or if the interpreter runs without its lock, or is not CPython, the calibration is
not confirmed. ``count_if_alone`` then gives ``NEVER``, which every count exceeds: every object
looks as if others held it, and nothing is written in place. Results are the same, and are copied
more often.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

#: ``sys.getrefcount``; where there is none, a count that is never confirmed.
getrefcount: Callable[[object], int] = getattr(sys, "getrefcount", lambda x: sys.maxsize)

#: Below every count: no object is found to be held by one holder alone.
NEVER = 0


def are_exact() -> bool:
    """Whether this interpreter counts references at once: CPython with its lock. Without the lock
    the counts of other threads come late."""
    has_lock: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and has_lock()


def count_if_alone(
    count: Callable[[T], int], make: Callable[[], T], counted: Callable[[T], Any]
) -> int:
    """What ``count(argument)`` finds where nothing but the argument holds the object.

    ``make()`` gives an argument, and ``counted(argument)`` the object in it. ``NEVER`` where the
    calibration is not confirmed.
    """
    if not are_exact():
        return NEVER

    def count_with(others: int) -> int:
        argument = make()
        holders = [counted(argument) for _ in range(others)]
        found = count(argument)
        return found if len(holders) == others else NEVER  # they live until here

    alone, one, two = map(count_with, range(3))
    return alone if (one, two) == (alone + 1, alone + 2) else NEVER
