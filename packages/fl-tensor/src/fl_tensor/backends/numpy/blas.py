"""OpenBLAS: the thread pool of NumPy's BLAS."""

from __future__ import annotations

import ctypes
from typing import Any

from fl_tensor import threads

_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


def _function(name: str) -> Any:
    # NumPy's extension module resolves names of the BLAS that it is linked to, whichever that is.
    from numpy._core import _multiarray_umath

    try:
        loaded = ctypes.CDLL(_multiarray_umath.__file__)
    except OSError:
        return None
    for form in _NAMES:
        if (found := getattr(loaded, form.format(name), None)) is not None:
            return found
    return None


def _resize(count: int) -> None:
    if (set_threads := _function("set_num_threads")) is not None:
        set_threads(ctypes.c_int(count))


def _state() -> str:
    get = _function("get_num_threads")
    return f"{get()} thread" + ("" if get() == 1 else "s") if get is not None else "unknown"


def register() -> None:
    """Make OpenBLAS one of the process's pools, if it is NumPy's BLAS."""
    if _function("set_num_threads") is not None:
        threads.register(threads.Pool("OpenBLAS", _resize, _state))
