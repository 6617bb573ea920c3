"""What packages add (``fl_jit.api``): operations, kernels, passes, and where they are kept."""
