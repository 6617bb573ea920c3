"""Coordination of OpenBLAS's threads with OpenMP's.

After each call OpenBLAS's workers spin for some 25 ms, in case there is another one. Meanwhile they
hold the processors that OpenMP's threads want (a provider's, generated kernels'), and work that
alternates between the two pools takes twice as long. So where a provider computes on OpenMP, either

* this backend is what imports NumPy: OPENBLAS_THREAD_TIMEOUT is 4 for the moment of the import, and
  the workers sleep between calls; or
* NumPy was there before, and unless that variable was set by the user OpenBLAS gets one thread as
  soon as the provider computes something.

Products of real numbers that are worth threads are the provider's then; the rest of OpenBLAS is
LAPACK, complex products, and float64 times a vector.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from fl_tensor import threads
from fl_tensor.backends.providers import choose

TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"
#: Processor cycles that workers spin, as a power of two; OpenBLAS's own default is 26.
_SHORT = 4
_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")

_asleep = False
_yielded = False


def import_numpy() -> None:
    """Import NumPy, if nobody did yet, such that its workers sleep where that is called for."""
    global _asleep
    asked = os.environ.get(TIMEOUT)
    if asked is not None or "numpy" in sys.modules or choose.current() is None:
        _asleep = asked is not None and asked.isdigit() and int(asked) <= 2 * _SHORT
        return
    os.environ[TIMEOUT] = str(_SHORT)
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[TIMEOUT]
    _asleep = True


def yield_to_openmp() -> None:
    """Called before a provider computes: see above."""
    global _yielded
    if not _yielded:
        _yielded = True
        if not _asleep:
            _resize(1)


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
    if _yielded and not _asleep:
        count = 1
    if (set_threads := _function("set_num_threads")) is not None:
        set_threads(ctypes.c_int(count))


def _state() -> str:
    get = _function("get_num_threads")
    count = f"{get()} thread" + ("" if get() == 1 else "s") if get is not None else "unknown"
    if _asleep:
        return f"{count}, asleep between calls"
    if _yielded:
        return (
            f"{count}, not to keep OpenMP waiting: NumPy was imported before this backend; set "
            f"{TIMEOUT}={_SHORT} in the environment for more"
        )
    return count


def register() -> None:
    """Make OpenBLAS one of the process's pools, if it is NumPy's BLAS."""
    if _function("set_num_threads") is not None:
        threads.register(threads.Pool("OpenBLAS", _resize, _state))
