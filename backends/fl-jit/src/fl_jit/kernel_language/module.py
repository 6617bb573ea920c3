"""A kernel and the kernels that it calls as one module in LLVM IR.

The module has one public function. It takes the address of a row of numbers with 8 bytes each: the
arguments, an array as address and length, a record as its fields. A record inside the module is the
address of its part of the row, so that passing it on costs one register.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernel_language.functions import (
    Callee,
    new_function,
    row_slots,
    signature,
    value_type,
)
from fl_jit.kernel_language.statements import Statements
from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_tensor.kernels import ArrayType, Definition, RecordType

__all__ = ["assembly"]


def assembly(definition: Definition, symbol: str, machine: Target) -> str:
    """The module of a kernel in LLVM IR, whose public function is ``symbol``."""
    module = ir.Module(symbol)
    module.triple = target.triple()
    written: dict[str, Callee] = {}
    callee = _written(definition, module, symbol, machine, written)
    _entry(callee, module, symbol, machine)
    return str(module)


def _written(
    definition: Definition, module: IR, symbol: str, machine: Target, written: dict[str, Callee]
) -> Callee:
    """The function of a definition in the module, after those that it calls."""
    found = written.get(definition.digest)
    if found is None:
        callees = {
            name: _written(of, module, symbol, machine, written)
            for name, of in definition.callees.items()
        }
        # An engine has a name once: kernels with common callees have a copy of them each.
        name = f"{symbol}.{len(written)}"
        function = new_function(module, signature(definition), name, machine, "internal")
        found = written[definition.digest] = Callee(definition, function)
        Statements(definition, function, callees, machine).write()
    return found


def _entry(callee: Callee, module: IR, symbol: str, machine: Target) -> None:
    """The public function: it takes the arguments from the row, and calls the kernel."""
    definition = callee.definition
    result = callee.function.function_type.return_type
    is_bool = isinstance(result, ir.IntType) and result.width == 1
    kind = ir.FunctionType(i64 if is_bool else result, [pointer])
    function = new_function(module, kind, symbol, machine, "external")
    b = Builder(function.append_basic_block())
    (row,) = function.args
    arguments: list[IR] = []
    at = 0
    for parameter in definition.parameters:
        place = b.gep(row, [i64(at)], source_etype=i64)
        if isinstance(parameter.type, RecordType):
            arguments.append(place)
        elif isinstance(parameter.type, ArrayType):
            length = b.gep(row, [i64(at + 1)], source_etype=i64)
            arguments += [b.load(place, pointer), b.load(length, i64)]
        elif parameter.type.name == "bool":
            arguments.append(b.trunc(b.load(place, i64), value_type(parameter.type)))
        else:
            arguments.append(b.load(place, value_type(parameter.type)))
        at += row_slots(parameter.type)
    found = b.call(callee.function, arguments)
    if isinstance(result, ir.VoidType):
        b.ret_void()
    else:
        b.ret(b.zext(found, i64) if is_bool else found)
