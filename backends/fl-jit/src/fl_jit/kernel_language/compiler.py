"""``JitKernelCompiler``: machine code of kernels, cached in memory and in files."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_tensor.kernels import ArrayType, Definition, KernelCompiler, RecordType, Scalar

if TYPE_CHECKING:
    from fl_tensor.kernels.types import Type

__all__ = ["JitKernelCompiler"]

_RESULTS: dict[str, Any] = {
    "int64": ctypes.c_int64,
    "float64": ctypes.c_double,
    "bool": ctypes.c_int64,
}


class JitKernelCompiler(KernelCompiler):
    """Kernels as machine code for the available processor, through LLVM.

    Indices are not checked. Calls release the GIL.
    """

    CONTRACT = (1, 0)
    name = "jit"

    def compile(self, definition: Definition) -> Callable[..., int | float | None]:
        """The function of flat numbers. Raises CompileError if LLVM refuses the code, which is a
        defect of this compiler."""
        result = _RESULTS[definition.result.name] if definition.result else None
        native = ctypes.CFUNCTYPE(result, ctypes.c_char_p)(address(definition))
        # One argument in place of many: converting a number by ctypes takes longer than by struct.
        pack = struct.Struct("".join(row_format(p.type for p in definition.parameters))).pack

        def call(*numbers: int | float) -> int | float | None:
            found: int | float | None = native(pack(*numbers))
            return found

        return call


def address(definition: Definition) -> int:
    """The address of a kernel's machine code, which stays for the life of the process. Raises
    CompileError."""
    from fl_jit.kernels.codegen import compile, target

    symbol = f"kernel_{definition.digest}"
    machine = target.host()
    about = f"kernel {compile.sources(Path(__file__).parent)} {definition.digest}"

    def assembly(_: Sequence[str]) -> str:
        # Imported here, because a kernel with a file of machine code needs no generator.
        from fl_jit.kernel_language import module

        return module.assembly(definition, symbol, machine)

    return compile.addresses({symbol: about}, assembly, machine, compile.Effort.WHOLE)[symbol]


def row_format(types: Iterator[Any]) -> Iterator[str]:
    """How the numbers of arguments lie in memory, in formats of struct: 8 bytes each."""
    kind: Type
    for kind in types:
        if isinstance(kind, RecordType):
            yield from row_format(of for _, of in kind.fields)
        elif isinstance(kind, ArrayType):
            yield "Qq"
        else:
            yield "d" if kind == Scalar("float64") else "q"
