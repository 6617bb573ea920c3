"""What the lines of a program call, besides ``ft``. A program that fails is printed with this file
in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fl_tensor as ft

#: Which data ``array`` draws. Runs of one program are one computation on different data, but in
#: run TURNED arrays have other strides, and in run KEPT nothing is deleted.
RUN = 0
TURNED, KEPT = 3, 4


def array(shape: tuple[int, ...], dtype: str, seed: int, special: bool = False) -> Any:
    """Random numbers: small ones, of which many are equal; with ``special`` also the extremes."""
    rng = np.random.default_rng([seed, RUN])
    if dtype == "bool":
        return ft.asarray(_laid(rng.random(shape) < 0.5, seed))
    if dtype[:3] == "int" or dtype[0] == "u":
        low = 0 if dtype[0] == "u" else -5
        values = rng.integers(low, 6, shape).astype(dtype)
        if special:
            info = np.iinfo(dtype)
            values = np.where(rng.random(shape) < 0.2, rng.choice([info.min, info.max]), values)
        return ft.asarray(_laid(values.astype(dtype), seed))
    values = np.where(rng.random(shape) < 0.3, rng.integers(-3, 4, shape), rng.normal(size=shape))
    if special:
        odd = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e4], shape)
        values = np.where(rng.random(shape) < 0.2, odd, values)
    if dtype.startswith("complex"):
        return ft.asarray((values + 1j * np.flip(values)).astype(dtype))
    made = _laid(values.astype("float32" if dtype == "bfloat16" else dtype), seed)
    return ft.asarray(made).astype(dtype)


def _laid(x: Any, seed: int) -> Any:
    if RUN != TURNED or not x.ndim:
        return x
    return np.asfortranarray(x) if seed % 2 else np.repeat(x, 2, -1)[..., ::2]


def indices(size: int, shape: tuple[int, ...], seed: int, dtype: str = "int64") -> Any:
    """Random places along an axis of ``size``."""
    return ft.asarray(np.random.default_rng([seed, RUN]).integers(0, size, shape).astype(dtype))


def refused(call: Callable[[], Any]) -> str:
    """The kind of error that a wrong call raises, at once."""
    try:
        call()
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        return next(k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins")
    return "no error"


def look(x: Any) -> None:
    """See a value before the program ends."""
    np.asarray(getattr(x, "tensor", x))


def variable(x: Any) -> Any:
    """``x`` as a leaf whose gradient is wanted."""
    import fl_autograd as ag

    return ag.Variable(x, requires_grad=True)
