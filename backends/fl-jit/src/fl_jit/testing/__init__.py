"""A kit for kernel libraries: derive a test class from ``KernelLibrarySuite``."""

from fl_jit.testing.suite import KernelLibrarySuite

__all__ = ["KernelLibrarySuite"]
