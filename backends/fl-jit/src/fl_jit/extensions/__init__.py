"""Extensions by other packages (``fl_jit.api``): operations, kernels and passes, and their
registry."""
