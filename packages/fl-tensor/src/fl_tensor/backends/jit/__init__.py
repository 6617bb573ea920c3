"""``jit``: deferred execution on the CPU."""

from fl_tensor.backends.jit.backend import JitBackend as JitBackend
