"""Kernels: functions in a small subset of Python, compiled for the host.

    import fl_tensor as ft
    from fl_tensor.kernels import Array, empty

    @ft.kernel
    def count_below(x: Array[ft.float32], limit: float) -> int: ...

They are for algorithms that do not fit tensor operations. ``docs/kernels.md`` states the subset. A
compiler is found under the entry-point group ``fl.kernel_compilers.v1``; without one, the checking
interpreter runs them.
"""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fl_tensor.kernels.compilers import Interpreter, KernelCompiler
from fl_tensor.kernels.definition import Definition, Parameter
from fl_tensor.kernels.kernel import Kernel, kernel
from fl_tensor.kernels.memory import empty
from fl_tensor.kernels.types import ArrayType, RecordType, Scalar, Type

if TYPE_CHECKING:
    # To type checkers a dtype is no type: modules with kernels disable `valid-type`.
    _T = TypeVar("_T")

    class Array(Generic[_T]):
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __len__(self) -> int: ...
        def __getattr__(self, name: str) -> Any: ...

else:
    from fl_tensor.kernels.types import Array

__all__ = [
    "Array", "ArrayType", "Definition", "Interpreter", "Kernel", "KernelCompiler", "Parameter",
    "RecordType", "Scalar", "Type", "empty", "kernel",
]  # fmt: skip
