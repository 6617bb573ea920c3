"""Kernels: functions in a small subset of Python, compiled for the host.

    import fl_tensor as ft
    from fl_tensor.kernels import Array, empty

    @ft.kernel
    def count_below(x: Array[ft.float32], limit: float) -> int: ...

They are for algorithms that do not fit tensor operations. ``docs/kernels.md`` states the subset. A
compiler is found under the entry-point group ``fl.kernel_compilers.v1``; without one, the checking
interpreter runs them.
"""

from fl_tensor.kernels.compilers import Interpreter, KernelCompiler
from fl_tensor.kernels.definition import Definition, Parameter
from fl_tensor.kernels.kernel import Kernel, kernel
from fl_tensor.kernels.memory import empty
from fl_tensor.kernels.types import Array, ArrayType, RecordType, Scalar, Type

__all__ = [
    "Array", "ArrayType", "Definition", "Interpreter", "Kernel", "KernelCompiler", "Parameter",
    "RecordType", "Scalar", "Type", "empty", "kernel",
]  # fmt: skip
