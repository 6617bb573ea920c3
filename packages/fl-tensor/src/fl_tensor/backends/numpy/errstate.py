"""Suppression of NumPy's floating-point warnings: inf and NaN are specified results.

``np.errstate`` costs more than a small operation. NumPy keeps that state in a context variable, so
running a ufunc inside a context in which it is switched off, once, costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

__all__ = ["call", "concurrent", "quiet", "run", "writing"]

#: Decorator of functions that call several functions of NumPy.
quiet = np.errstate(all="ignore")

#: Bytes that take some 50 us to write. A longer call does not hold the shared context.
_LONG = 1 << 18
_context = Context()
_context.run(np.seterr, all="ignore")
#: ``run(ufunc, *arguments)``: the fastest way, for one thread at a time. Raises RuntimeError while
#: another thread, or a finaliser in this one, is in the context: then use ``concurrent``.
run = _context.run


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """``function(...)`` without warnings, by ``run`` if its context is free. ``function`` is one of
    NumPy's: it sees no context variables of the caller."""
    try:
        return run(function, *arguments, **options)
    except RuntimeError:
        return concurrent(function, *arguments, **options)


def writing(nbytes: int) -> Callable[..., Any]:
    """``call``, or ``concurrent`` for a result of so many bytes that other threads would find the
    shared context in use."""
    return call if nbytes < _LONG else concurrent


@quiet
def concurrent(ufunc: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """``ufunc(*arguments, **options)`` without warnings, in any number of threads at once. Costs
    more than ``call``."""
    return ufunc(*arguments, **options)
