"""``jit``: deferred execution on the CPU, a backend of fl-tensor.

Operations are recorded. When a result is read, the recorded graph is fused, compiled and run. Most
programs need only ``ft.use("jit")``, or nothing where jit is the default. This module serves
profiling, inspection and extensions. ``ft.jit`` is an alias of it. See docs/jit.md.

    with fl_jit.profile() as report:
        step()
    print(report)

The backend is imported at the first use of a name: the compiler of kernels needs none of it.
"""

import importlib
import threading
from typing import TYPE_CHECKING, Any

from fl_jit._version import __version__ as __version__

if TYPE_CHECKING:
    from fl_jit.api import *  # noqa: F403 - with an explicit __all__
    from fl_jit.backend import JitBackend as JitBackend


_lock = threading.RLock()
_is_loading = False


def _load() -> None:
    """Import the backend and its public names, once."""
    global _is_loading
    with _lock:
        if _is_loading or "JitBackend" in globals():
            return
        _is_loading = True
        try:
            blas = importlib.import_module("fl_jit.eager.blas")
            blas.import_numpy()  # before the backend: see eager/blas.py
            api = importlib.import_module("fl_jit.api")
            names = {name: getattr(api, name) for name in api.__all__}
            globals().update(names, JitBackend=api.JitBackend)
        finally:
            _is_loading = False


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        _load()
    try:
        return globals()[name]
    except KeyError:
        raise AttributeError(f"module 'fl_jit' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    _load()
    return sorted(globals())
