"""Coexistence of OpenBLAS's threads, which come with NumPy, and those of kernel libraries.

After each call OpenBLAS's workers spin for some 25 ms, in case there is another call. Meanwhile
they hold the processors that OpenMP threads need. Generated kernels and other kernel libraries use
OpenMP. Work that alternates between the two pools takes twice as long. There are two cases where a
kernel library uses OpenMP:

* This backend imports NumPy. OPENBLAS_THREAD_TIMEOUT is 4 during the import, and the workers sleep
  between calls.
* NumPy was imported before, for example by the ``numpy`` backend. OpenBLAS then gets one thread as
  soon as the kernel library computes something, unless the user set that variable.

Real GEMMs that are large enough for threads run in the kernel library. The rest of OpenBLAS is
LAPACK, complex products, and float64 matrix-vector products.
"""

from __future__ import annotations

import os
import sys

from fl_jit.kernels import registry
from fl_tensor.extend import threads

TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"
#: Processor cycles that workers spin, as a power of two; OpenBLAS's own default is 26.
_SHORT = 4

_asleep = False
_yielded = False


def import_numpy() -> None:
    """Import NumPy, if it is not imported yet, with sleeping workers where a kernel library needs
    them."""
    global _asleep
    setting = os.environ.get(TIMEOUT)
    if setting is not None or "numpy" in sys.modules or not registry.requested():
        _asleep = setting is not None and setting.isdigit() and int(setting) <= 2 * _SHORT
    else:
        os.environ[TIMEOUT] = str(_SHORT)
        try:
            import numpy  # noqa: F401
        finally:
            del os.environ[TIMEOUT]
        _asleep = True
    if _asleep:
        _constrain("asleep between calls")


def yield_to_openmp() -> None:
    """Called before a kernel library computes: see the module."""
    global _yielded
    if _yielded:
        return
    _yielded = True
    if not _asleep:
        _constrain(
            "not to keep OpenMP waiting: NumPy was imported before the jit backend; set "
            f"{TIMEOUT}={_SHORT} in the environment for more",
            limit=1,
        )


def _constrain(note: str, limit: int | None = None) -> None:
    # At most ``limit`` threads, whatever ``ft.set_num_threads`` says; ``note`` tells people why.
    import fl_tensor.extend.numpy  # noqa: F401 - it registers the pool

    pool = next((each for each in threads.pools() if each.name == "OpenBLAS"), None)
    if pool is None:
        return
    resize = pool.resize

    def limited(count: int) -> None:
        resize(count if limit is None else min(count, limit))

    state = pool.state
    threads.register(pool._replace(resize=limited, state=lambda: f"{state()}, {note}"))
    if limit is not None:
        resize(limit)
