"""``jit``: deferred execution on the CPU."""
