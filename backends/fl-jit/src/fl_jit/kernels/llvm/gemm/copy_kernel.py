"""A function in the making that moves elements between a matrix and rows of what is computed with:
what ``packing.py`` and ``unpacking.py`` have in common."""

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
    """The function ``move``, for a matrix of ``dtype``."""

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
        """``distance`` bytes behind an address."""
        return self.b.gep(base, [distance], source_etype=i8)

    def load(self, address: IR, mask: IR | None) -> IR:
        """A vector of neighbours of the matrix, as what is computed with."""
        return self.wide(self.of.load(memory_type(self.dtype), address, mask))

    def wide(self, found: IR) -> IR:
        """Elements of the matrix as what is computed with."""
        return half.widen(self.of, self.dtype, found) if self.dtype in HALF else found

    def narrow(self, value: IR) -> IR:
        """The reverse."""
        return half.narrow_sums(self.of, self.dtype, value) if self.dtype in HALF else value

    def elements(self, stride: IR) -> IR:
        """Bytes as elements of the matrix."""
        return self.b.sdiv(stride, i64(self.dtype.itemsize))

    def bytes(self, count: IR) -> IR:
        """Bytes of so many numbers that are computed with."""
        return self.b.mul(count, i64(self.itemsize))


def code(about: str, dtype: DType, emit: Callable[[IR], object]) -> compile.Code:
    """Machine code with the function ``move`` that ``emit`` puts into a module, for ``dtype``."""
    machine = target.host()

    def assembly() -> str:
        module = ir.Module("move")
        module.triple = target.triple()
        emit(module)
        return str(module)

    about = f"{about} {dtype} {compile.sources(FOLDER)}"
    return compile.load(about, assembly, machine, compile.Effort.TIDY)
