"""How OpenBLAS's threads, which NumPy brings along, live beside those of kernel libraries.

After each call OpenBLAS's workers spin for some 25 ms, in case there is another one. Meanwhile they
hold the processors that OpenMP's threads want (a provider's, generated kernels'), and work that
alternates between the two pools takes twice as long. So where a provider computes on OpenMP, either

* this backend is what imports NumPy: OPENBLAS_THREAD_TIMEOUT is 4 for the moment of the import, and
  the workers sleep between calls; or
* NumPy was there before (the `numpy` backend may have imported it), and unless that variable was
  set by the user OpenBLAS gets one thread as soon as the provider computes something.

Products of real numbers that are worth threads are the provider's then; the rest of OpenBLAS is
LAPACK, complex products, and float64 times a vector.
"""

from __future__ import annotations

import os
import sys

from fl_jit.kernels import registry

TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"
#: Processor cycles that workers spin, as a power of two; OpenBLAS's own default is 26.
_SHORT = 4

_asleep = False
_yielded = False


def import_numpy() -> None:
    """Import NumPy, if nobody did yet, such that its workers sleep where that is called for."""
    global _asleep
    asked = os.environ.get(TIMEOUT)
    if asked is not None or "numpy" in sys.modules or registry.active_library() is None:
        _asleep = asked is not None and asked.isdigit() and int(asked) <= 2 * _SHORT
    else:
        os.environ[TIMEOUT] = str(_SHORT)
        try:
            import numpy  # noqa: F401
        finally:
            del os.environ[TIMEOUT]
        _asleep = True
    if _asleep:
        from fl_tensor.backends.numpy import blas

        blas.constrain("asleep between calls")


def yield_to_openmp() -> None:
    """Called before a provider computes: see above."""
    global _yielded
    if _yielded:
        return
    _yielded = True
    if not _asleep:
        from fl_tensor.backends.numpy import blas

        blas.constrain(
            "not to keep OpenMP waiting: NumPy was imported before the jit backend; set "
            f"{TIMEOUT}={_SHORT} in the environment for more",
            limit=1,
        )
