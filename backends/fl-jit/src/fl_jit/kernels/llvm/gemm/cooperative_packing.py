"""Cooperative packing of a B that several threads read, with a barrier before ``gemm``."""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.gemm import packing
from fl_jit.kernels.llvm.gemm.kernel_args import GemmArgs


@compile.once
def address() -> int:
    """Address of the machine code: a job function of a thread pool, whose items are panels of
    blocks of k."""
    return _code().address("pack_shared")


@compile.once
def _code() -> compile.Code:
    about = f"pack shared {compile.sources(FOLDER)}"
    return compile.load(about, assembly, target.host(), compile.Effort.LEAST)


def assembly() -> str:
    """A module in LLVM IR with the function ``pack_shared``."""
    module = ir.Module("pack_shared")
    module.triple = target.triple()
    _PackShared(module)
    return str(module)


class _PackShared(GemmArgs):
    def __init__(self, module: IR) -> None:
        super().__init__(module, "pack_shared")
        b, w = self.b, self.word
        with self.loop(self.begin, self.end) as item:
            panel = b.srem(item, w["panels"])
            k0 = b.mul(b.sdiv(item, w["panels"]), w["k block"])
            k = self.minimum(b.sub(w["k"], k0), w["k block"])
            is_last = b.icmp_signed("==", panel, b.sub(w["panels"], i64(1)))
            columns = self.either(is_last, w["last columns"], w["panel columns"])
            column = b.mul(panel, w["panel columns"])
            source = b.add(w["y"], b.mul(k0, w["y k"]))
            source = self.pointer(b.add(source, b.mul(column, w["y column"])))
            to = self.pointer(b.add(self.shared(), self.packed(k0, k, column)))
            given = source, w["y k"], w["y column"], k, columns, w["panel columns"], i64(0), to
            self.call(packing.PACK, w["pack shared"], *given)
        b.ret_void()
