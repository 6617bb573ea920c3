"""Common IR builder of kernels that copy between a matrix and rows of the compute dtype.

``packing.py`` and ``unpacking.py`` are built on it.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from fl_jit.kernels.codegen import compile, half, target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.loops import OuterLoops
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, Vectors, element_type, i8, i64, memory_type
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import HALF, DType


class CopyKernelBuilder(OuterLoops):
    """Builder of the function ``move`` for a matrix of ``dtype``."""

    def __init__(self, module: IR, signature: IR, dtype: DType, machine: Target) -> None:
        self.function = ir.Function(module, signature, "move")
        self.function.attributes.add("nounwind")
        self.b = Builder(self.function.append_basic_block("entry"))
        self.dtype = dtype
        self.itemsize = computed(dtype).itemsize
        self.lanes = machine.lanes(self.itemsize)
        self.of = Vectors(self.b, machine, self.lanes)
        self.element = element_type(computed(dtype))

    def at(self, base: IR, distance: IR) -> IR:
        """The address ``distance`` bytes after ``base``."""
        return self.b.gep(base, [distance], source_etype=i8)

    def load(self, address: IR, mask: IR | None) -> IR:
        """A vector of contiguous elements of the matrix, in the compute dtype."""
        return self.wide(self.of.load(memory_type(self.dtype), address, mask))

    def wide(self, found: IR) -> IR:
        """Elements of the matrix in the compute dtype."""
        return half.widen(self.of, self.dtype, found) if self.dtype in HALF else found

    def narrow(self, value: IR) -> IR:
        """Elements of the compute dtype in the dtype of the matrix."""
        return half.narrow_sums(self.of, self.dtype, value) if self.dtype in HALF else value

    def elements(self, stride: IR) -> IR:
        """A stride in bytes as a number of elements of the matrix."""
        return self.b.sdiv(stride, i64(self.dtype.itemsize))

    def bytes(self, count: IR) -> IR:
        """Bytes of ``count`` elements of the compute dtype."""
        return self.b.mul(count, i64(self.itemsize))


def code(about: str, dtype: DType, emit: Callable[[IR], object]) -> compile.Code:
    """Machine code with the function ``move`` that ``emit`` adds to a module, for ``dtype``."""
    machine = target.host()

    def assembly() -> str:
        module = ir.Module("move")
        module.triple = target.triple()
        emit(module)
        return str(module)

    about = f"{about} {dtype} {compile.sources(FOLDER)}"
    return compile.load(about, assembly, machine, compile.Effort.TIDY)
