"""The warning for assignment to a temporary, ``x[0][1] = 5``."""

from __future__ import annotations

import warnings
from typing import Any

from fl_tensor.errors import ChainedAssignmentWarning
from fl_tensor.refcounts import NEVER, count_if_alone, getrefcount


class _Probe:
    # Counts its references as ``Tensor.__setitem__`` does, and tells the value.
    __slots__ = ()

    def __setitem__(self, index: int, value: list[int]) -> None:
        value.append(getrefcount(self))


def _as_temporary(only: list[Any]) -> int:
    seen: list[int] = []
    only.pop()[0] = seen
    return seen[0]


def _as_variable(only: list[Any]) -> int:
    seen: list[int] = []
    probe = only.pop()
    probe[0] = seen
    return seen[0]


def _calibrated() -> int:
    alone = count_if_alone(_as_temporary, lambda: [_Probe()], lambda only: only[0])
    # Interpreters that lend variables to the statement cannot tell one from the other.
    return alone if _as_variable([_Probe()]) > alone else NEVER


#: What ``getrefcount(self)`` finds at most in the ``__setitem__`` of a temporary.
TEMPORARY = _calibrated()


def warn() -> None:
    """Warn whoever called the ``__setitem__`` that calls this."""
    warnings.warn(
        "this assigns to a value that nothing else holds, and has no effect: indexing gives "
        "values, not views; write x[i, j] = v in place of x[i][j] = v",
        ChainedAssignmentWarning,
        stacklevel=3,
    )
