"""The compiler of ``@ft.kernel`` functions: by the conformance suite."""

from __future__ import annotations

from fl_jit.kernel_language import JitKernelCompiler
from fl_tensor.testing import KernelCompilerSuite


class TestJitKernelCompiler(KernelCompilerSuite):
    compiler = JitKernelCompiler
    programs = 40
