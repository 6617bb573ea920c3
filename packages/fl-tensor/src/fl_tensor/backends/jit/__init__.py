"""``jit``: deferred execution on the CPU.

Here is the backend itself: what it puts off, a file for each family of operations. What becomes of
it is in rooms, of which each may import those after it: ``planning`` (from a trace to a plan),
``steps`` (what runs), ``outside`` (what packages add) beside ``reporting`` (what people are told),
``traces`` (what was put off). Below all of them is what runs at once (``eager.py``), and how kernel
libraries are asked (``provided*.py``).
"""

from fl_tensor.backends.jit import blas

blas.import_numpy()  # before anything below does

from fl_tensor.backends.jit.backend import JitBackend as JitBackend  # noqa: E402
