"""The kit with wrappers in front of the backend: they must keep the contract, too.

    python -m fl_tensor.testing acme --under profile,check,count,trace

The first is called first. ``check`` does not look for NaN and infinities here: samples have them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fl_tensor.backend import TensorBackend
from fl_tensor.errors import ArgumentError
from fl_tensor.stack import Wrapper
from fl_tensor.wrappers import check, count, profile, trace, wrapped

#: How the command tells the process that runs the tests.
ENVIRONMENT = "FL_TENSOR_TESTING_UNDER"
NAMES = ("profile", "check", "count", "trace")


def layers(names: str) -> list[Wrapper]:
    """The wrappers of a comma-separated list. Raises ArgumentError for an unknown name."""
    known: dict[str, Callable[[], Wrapper]] = {
        "profile": profile,
        "check": lambda: check(nan=False, inf=False),
        "count": count,
        "trace": trace,
    }
    given = [name for name in names.split(",") if name]
    if unknown := [name for name in given if name not in known]:
        raise ArgumentError(f"--under {unknown[0]}: expected some of {','.join(NAMES)}")
    return [known[name]() for name in given]


def placed(backend: TensorBackend) -> TensorBackend:
    """The backend behind the wrappers that the command asked for."""
    found = layers(os.environ.get(ENVIRONMENT, ""))
    return wrapped(backend, *found) if found else backend
