"""What packages add (``fl_tensor.jit``): operations, kernels, passes, and where they are kept."""
