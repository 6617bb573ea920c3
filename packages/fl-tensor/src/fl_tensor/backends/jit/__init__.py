"""``jit``: deferred execution on the CPU.

Here is the backend itself: what it puts off, a file for each family of operations. What becomes of
it is in rooms, of which each may import those after it: ``planning`` (from a trace to a plan),
``steps`` (what runs), ``outside`` (what packages add) beside ``reporting`` (what people are told),
``traces`` (what was put off).
"""

from fl_tensor.backends.jit.backend import JitBackend as JitBackend
