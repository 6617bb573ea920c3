"""Functions of a module: their signatures, and what their arguments and variables are in LLVM IR.

int64  i64        array   ptr, i64: address and length
float64  double   record  ptr: the address of its part of the row of arguments
bool  i1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, f64, i1, i64, pointer
from fl_tensor.kernels import ArrayType, Definition, RecordType, Scalar
from fl_tensor.kernels.types import Type

__all__ = ["Callee", "Frame", "body", "row_slots", "signature", "value_type"]

_SCALARS = {"int64": i64, "float64": f64, "bool": i1}


@dataclass(frozen=True)
class Callee:
    """A kernel that was written to the module."""

    definition: Definition
    #: Its function in LLVM IR.
    function: IR


def value_type(kind: Scalar) -> IR:
    """The type of a number in registers."""
    return _SCALARS[kind.name]


def row_slots(kind: Type) -> int:
    """How many numbers of the row of arguments an argument takes."""
    if isinstance(kind, RecordType):
        return sum(row_slots(of) for _, of in kind.fields)
    return 2 if isinstance(kind, ArrayType) else 1


def signature(definition: Definition) -> IR:
    """The type of a kernel's function."""
    kinds: list[IR] = []
    for parameter in definition.parameters:
        kind = parameter.type
        if isinstance(kind, Scalar):
            kinds.append(value_type(kind))
        else:
            kinds += [pointer] if isinstance(kind, RecordType) else [pointer, i64]
    result = definition.result
    return ir.FunctionType(ir.VoidType() if result is None else value_type(result), kinds)


def body(
    definition: Definition, function: IR, callees: Mapping[str, Callee], machine: Target
) -> None:
    """Write the body of a kernel's function."""
    from fl_jit.kernel_language.statements import Statements

    Statements(definition, function, callees, machine).write()


class Frame:
    """The names of a function under construction, and the builder ``b`` that appends to it."""

    def __init__(
        self,
        definition: Definition,
        function: IR,
        callees: Mapping[str, Callee],
        machine: Target,
    ) -> None:
        self.definition = definition
        self.function = function
        self.callees = callees
        self.machine = machine
        function.attributes.add("nounwind")
        #: Variables are stack slots, which LLVM promotes to registers.
        self._slots: dict[str, IR] = {}
        self._arrays: dict[str, tuple[IR, IR]] = {}
        self._records: dict[str, tuple[IR, RecordType]] = {}
        self._invariant = function.module.add_metadata([])
        entry = function.append_basic_block("entry")
        self._entry = Builder(entry)
        self.b = Builder(function.append_basic_block("body"))
        self._bind()

    def _bind(self) -> None:
        left = iter(self.function.args)
        for parameter in self.definition.parameters:
            kind = parameter.type
            argument = next(left)
            if isinstance(kind, RecordType):
                argument.add_attribute("noundef")
                argument.attributes.dereferenceable = 8 * row_slots(kind)
                self._records[parameter.name] = argument, kind
            elif isinstance(kind, ArrayType):
                self._arrays[parameter.name] = argument, next(left)
            else:
                self.assign(parameter.name, kind, argument)

    def close(self) -> None:
        """End the block of variables, when all are known."""
        self._entry.branch(self.function.blocks[1])

    # variables

    def assign(self, name: str, kind: Scalar, value: IR) -> None:
        """``name = value``."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self._entry.alloca(value_type(kind))
        self.b.store(value, slot)

    def variable(self, name: str, kind: Scalar) -> IR | None:
        """The value of a variable, None if there is none of this name."""
        slot = self._slots.get(name)
        return None if slot is None else self.b.load(slot, value_type(kind))

    # arrays and records

    def array(self, name: str) -> tuple[IR, IR]:
        """The address and the length of an array that is a parameter."""
        return self._arrays[name]

    def record(self, name: str) -> IR:
        """The address of the fields of a record."""
        return self._records[name][0]

    def field(self, name: str, field: str, kind: IR, second: bool = False) -> IR:
        """A field of a record, or the length of an array (``second``), as a value of a type."""
        record, of = self._records[name]
        at = int(second)
        for other, other_type in of.fields:
            if other == field:
                break
            at += row_slots(other_type)
        found = self.b.load(self.b.gep(record, [i64(at)], source_etype=i64), kind, align=8)
        found.set_metadata("invariant.load", self._invariant)
        return found
