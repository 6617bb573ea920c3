"""Suppression of NumPy's floating-point warnings: inf and NaN are specified results.

``np.errstate`` costs more than a small operation. NumPy keeps that state in a context variable, so
running a ufunc inside a context in which it is switched off, once, costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

__all__ = ["call", "quiet", "run", "waiting", "writing"]

#: As a decorator, for functions that do more than call one function of NumPy's.
quiet = np.errstate(all="ignore")

#: What writes as many bytes takes some 50 us.
_LONG = 1 << 18
_context = Context()
_context.run(np.seterr, all="ignore")
#: ``run(ufunc, *arguments)``. Raises RuntimeError while another thread, or a finaliser in this one,
#: is inside: then use ``waiting``.
run = _context.run


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """``function(...)`` quietly: one function of NumPy's, which asks nobody's context."""
    try:
        return run(function, *arguments, **options)
    except RuntimeError:
        return waiting(function, *arguments, **options)


def writing(nbytes: int) -> Callable[..., Any]:
    """``call``, or for so many bytes ``waiting``: other threads come to their turn meanwhile."""
    return call if nbytes < _LONG else waiting


@quiet
def waiting(ufunc: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """``ufunc(*arguments, **options)`` quietly, wherever and however often at once."""
    return ufunc(*arguments, **options)
