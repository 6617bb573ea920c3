"""The compiler of ``@ft.kernel`` functions: from a definition to LLVM IR, and to machine code.

``compiler.py`` is what fl-tensor finds under the entry-point group ``fl.kernel_compilers.v1``. The
code of a kernel and of all that it calls is one module (``module.py``), a function of it is written
by ``statements.py``, ``expressions.py`` and ``arithmetic.py``. docs/jit.md describes the code.
"""

from fl_jit.kernel_language.compiler import JitKernelCompiler

__all__ = ["JitKernelCompiler"]
