"""LLVM IR builder that writes the text of an instruction when it is created.

llvmlite's builder keeps an object with name, operands, flags, attributes and metadata for each
instruction, and writes all of them at the end. That was a third of the compile time of a kernel.
Here an instruction is its text, its type and its name. Blocks, branches and the few others that
change after creation remain llvmlite's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from llvmlite import ir

IR: TypeAlias = Any  # llvmlite has no type information

_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_UNSIGNED = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"}


class Value:
    """The result of an instruction."""

    __slots__ = ("line", "reference", "type")

    def __init__(self, kind: IR, reference: str, line: str) -> None:
        self.type = kind
        self.reference = reference
        self.line = line

    def __str__(self) -> str:
        return self.line

    def get_reference(self) -> str:
        """The value's name as an operand of other instructions; llvmlite calls this, too."""
        return self.reference

    def set_metadata(self, name: str, node: IR) -> None:
        """Attach metadata."""
        self.line += f", !{name} {node.get_reference()}"


class Integer(ir.IntType):
    """Integer types. Constants such as ``i64(5)`` are cached, and their text is written once."""

    _instance_cache: ClassVar[dict[int, Integer]] = {}

    def __call__(self, value: int) -> IR:
        return _constant(self, value)


@functools.lru_cache(1 << 12)
def _constant(kind: IR, value: int) -> IR:
    return ir.Constant(kind, value)


_VOID, _BIT = ir.VoidType(), Integer(1)


@functools.cache
def vector_type(element: IR, lanes: int) -> IR:
    """The type of a vector, cached so that its text is written once."""
    return ir.VectorType(element, lanes)


def _binary(name: str) -> Callable[[Builder, IR, IR], IR]:
    def method(self: Builder, x: IR, y: IR) -> IR:
        kind = x.type
        _same(name, kind, y.type)
        return self.put(kind, f"{name} {kind} {x.get_reference()}, {y.get_reference()}")

    return method


def _cast(name: str) -> Callable[[Builder, IR, IR], IR]:
    def method(self: Builder, x: IR, kind: IR) -> IR:
        if x.type == kind:
            return x
        return self.put(kind, f"{name} {x.type} {x.get_reference()} to {kind}")

    return method


def _same(name: str, x: IR, y: IR) -> None:
    if x is not y and x != y:
        raise TypeError(f"{name} of {x} and {y}")


class Builder(ir.IRBuilder):
    """The builder of a function; it numbers the function's values."""

    def __init__(self, block: IR) -> None:
        super().__init__(block)
        self._count = 0

    def put(self, kind: IR, text: str) -> Value:
        """Append an instruction whose result has the type ``kind``."""
        block = self._block
        if isinstance(kind, ir.VoidType):
            made = Value(kind, "", text)
        else:
            self._count = count = self._count + 1
            made = Value(kind, f"%v{count}", f"%v{count} = {text}")
        block.instructions.insert(self._anchor, made)
        self._anchor += 1
        return made

    add, sub, mul = _binary("add"), _binary("sub"), _binary("mul")
    sdiv, srem, udiv, urem = (_binary(name) for name in ("sdiv", "srem", "udiv", "urem"))
    and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")
    shl, lshr, ashr = _binary("shl"), _binary("lshr"), _binary("ashr")
    fadd, fsub, fmul = _binary("fadd"), _binary("fsub"), _binary("fmul")
    fdiv, frem = _binary("fdiv"), _binary("frem")
    trunc, zext, sext = _cast("trunc"), _cast("zext"), _cast("sext")
    fptrunc, fpext, bitcast = _cast("fptrunc"), _cast("fpext"), _cast("bitcast")
    fptosi, fptoui = _cast("fptosi"), _cast("fptoui")
    sitofp, uitofp = _cast("sitofp"), _cast("uitofp")
    ptrtoint, inttoptr = _cast("ptrtoint"), _cast("inttoptr")

    def icmp_signed(self, how: str, x: IR, y: IR) -> IR:
        return self._compared("icmp", _SIGNED[how], x, y)

    def icmp_unsigned(self, how: str, x: IR, y: IR) -> IR:
        return self._compared("icmp", _UNSIGNED[how], x, y)

    def _compared(self, name: str, how: str, x: IR, y: IR) -> IR:
        kind = x.type
        _same(name, kind, y.type)
        result_type = vector_type(_BIT, kind.count) if isinstance(kind, ir.VectorType) else _BIT
        text = f"{name} {how} {kind} {x.get_reference()}, {y.get_reference()}"
        return self.put(result_type, text)

    def select(self, condition: IR, x: IR, y: IR) -> IR:
        kind = x.type
        _same("select", kind, y.type)
        condition = f"{condition.type} {condition.get_reference()}"
        text = f"select {condition}, {kind} {x.get_reference()}, {kind} {y.get_reference()}"
        return self.put(kind, text)

    def load(self, address: IR, typ: IR, align: int | None = None) -> IR:
        end = f", align {align}" if align else ""
        return self.put(typ, f"load {typ}, ptr {address.get_reference()}{end}")

    def store(self, value: IR, address: IR, align: int | None = None) -> IR:
        end = f", align {align}" if align else ""
        value = f"{value.type} {value.get_reference()}"
        return self.put(_VOID, f"store {value}, ptr {address.get_reference()}{end}")

    def gep(self, address: IR, indices: Sequence[IR], source_etype: IR) -> IR:
        where = ", ".join(f"{index.type} {index.get_reference()}" for index in indices)
        kind = address.type
        text = f"getelementptr {source_etype}, {kind} {address.get_reference()}, {where}"
        return self.put(kind, text)

    def call(self, function: IR, operands: Sequence[IR], flags: Sequence[str] = ()) -> IR:
        """``flags`` are fast-math flags."""
        return self.call_at(function, function.function_type, operands, flags)

    def call_at(
        self, address: IR, signature: IR, operands: Sequence[IR], flags: Sequence[str] = ()
    ) -> IR:
        """Call the function at an address, which is opaque to LLVM."""
        kind = signature.return_type
        for expected, given in zip(signature.args, operands, strict=True):
            _same("call", expected, given.type)
        given = ", ".join([f"{each.type} {each.get_reference()}" for each in operands])
        call = " ".join(["call", *flags])
        return self.put(kind, f"{call} {kind} {address.get_reference()}({given})")

    def asm(
        self, signature: IR, text: str, constraint: str, operands: Sequence[IR], side_effect: bool
    ) -> IR:
        return self.call(ir.InlineAsm(signature, text, constraint, side_effect), operands)

    def not_(self, x: IR) -> IR:
        kind = x.type
        lanes = kind.count if isinstance(kind, ir.VectorType) else 0
        return self.xor(x, ir.Constant(kind, (-1,) * lanes if lanes else -1))

    def neg(self, x: IR) -> IR:
        return self.sub(ir.Constant(x.type, 0), x)

    def fneg(self, x: IR) -> IR:
        return self.put(x.type, f"fneg {x.type} {x.get_reference()}")

    def extract_element(self, x: IR, index: IR) -> IR:
        text = f"extractelement {x.type} {x.get_reference()}, {index.type} {index.get_reference()}"
        return self.put(x.type.element, text)

    def insert_element(self, x: IR, value: IR, index: IR) -> IR:
        value = f"{value.type} {value.get_reference()}"
        text = f"insertelement {x.type} {x.get_reference()}, {value}, "
        return self.put(x.type, f"{text}{index.type} {index.get_reference()}")

    def shuffle_vector(self, x: IR, y: IR, indices: IR) -> IR:
        kind = x.type
        _same("shufflevector", kind, y.type)
        text = f"shufflevector {kind} {x.get_reference()}, {kind} {y.get_reference()}, "
        result_type = vector_type(kind.element, indices.type.count)
        return self.put(result_type, f"{text}{indices.type} {indices.get_reference()}")
