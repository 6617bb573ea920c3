"""``jit``: deferred execution on the CPU, a backend of fl-tensor.

Operations are recorded. When a result is read, the recorded graph is fused, compiled and run. Most
programs need only ``ft.use("jit")``, or nothing where jit is the default. This module serves
profiling, inspection and extensions. ``ft.jit`` is an alias of it. See docs/jit.md.

    with fl_jit.profile() as report:
        step()
    print(report)
"""

# ruff: noqa: E402 (NumPy is imported first, see eager/blas.py)

from fl_jit._version import __version__ as __version__
from fl_jit.eager import blas

blas.import_numpy()

from fl_jit.api import *  # noqa: F403 - with an explicit __all__
from fl_jit.backend import JitBackend as JitBackend
