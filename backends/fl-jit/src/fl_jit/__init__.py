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

from fl_jit.api import ExtensionWarning as ExtensionWarning
from fl_jit.api import JitWarning as JitWarning
from fl_jit.api import KernelWarning as KernelWarning
from fl_jit.api import Layout as Layout
from fl_jit.api import Operation as Operation
from fl_jit.api import PassWarning as PassWarning
from fl_jit.api import Registration as Registration
from fl_jit.api import Request as Request
from fl_jit.api import Row as Row
from fl_jit.api import built_in_micro_kernel as built_in_micro_kernel
from fl_jit.api import elementwise as elementwise
from fl_jit.api import operation as operation
from fl_jit.api import passes as passes
from fl_jit.api import plans as plans
from fl_jit.api import profile as profile
from fl_jit.api import program as program
from fl_jit.api import register_kernel as register_kernel
from fl_jit.api import register_micro_kernel as register_micro_kernel
from fl_jit.api import register_pass as register_pass
from fl_jit.api import replacing as replacing
from fl_jit.api import wait as wait
from fl_jit.backend import JitBackend as JitBackend
