"""Arithmetic of kernels on numbers in registers, with the results that ``docs/kernels.md`` states.

Integers wrap at 64 bits. Each operation has a defined result: division by zero gives 0, and a
shift by a negative count is one by 64 or more. No operation traps.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from llvmlite import ir

from fl_jit.kernels.codegen import libm
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.scalars import Scalars
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vector_ops import Num
from fl_jit.kernels.codegen.vectors import IR, call, f64, i1, i64

__all__ = [
    "absolute", "binary", "compare", "is_zero", "logarithmic", "maximum", "minimum", "truncated",
]  # fmt: skip

_FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_INTEGERS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul",
    ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
}  # fmt: skip
_COMPARISONS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[Num], Num]] = {
    "exp": libm.exp, "log": libm.log, "log1p": libm.log1p,
}  # fmt: skip


def binary(b: Builder, op: ast.operator, x: IR, y: IR) -> IR:
    """``x op y`` of two numbers of one type."""
    kind = type(op)
    if x.type == f64:
        return getattr(b, _FLOATS[kind])(x, y)
    if kind in _INTEGERS:
        return getattr(b, _INTEGERS[kind])(x, y)
    return _OTHERS[kind](b, x, y)


def _floor_divided(b: Builder, x: IR, y: IR) -> IR:
    known = _constant(y)
    if known is not None and known > 0 and known & (known - 1) == 0:
        return b.ashr(x, i64(known.bit_length() - 1))
    divisor, quotient, rest = _divided(b, x, y)
    found = b.sub(quotient, b.zext(_rounds_down(b, rest, divisor), i64))
    if known is None or known == 0:
        found = b.select(is_zero(b, y), i64(0), found)
    if known is None or known == -1:
        found = b.select(b.icmp_signed("==", y, i64(-1)), b.neg(x), found)
    return found


def _modulo(b: Builder, x: IR, y: IR) -> IR:
    known = _constant(y)
    if known is not None and known > 0 and known & (known - 1) == 0:
        return b.and_(x, i64(known - 1))
    divisor, _, rest = _divided(b, x, y)
    return b.select(_rounds_down(b, rest, divisor), b.add(rest, divisor), rest)


def _divided(b: Builder, x: IR, y: IR) -> tuple[IR, IR, IR]:
    # A divisor that does not trap, the quotient rounded to zero, and the rest. x / 1 stands for
    # the two cases that trap: x / 0, and the least number / -1.
    known = _constant(y)
    if known is None or known in (0, -1):
        traps = b.icmp_unsigned("<", b.add(y, i64(1)), i64(2))  # y is 0 or -1
        y = b.select(traps, i64(1), y)
    quotient = b.sdiv(x, y)
    return y, quotient, b.sub(x, b.mul(quotient, y))


def _rounds_down(b: Builder, rest: IR, divisor: IR) -> IR:
    # Whether a quotient that is rounded to zero is above the true one.
    differ = b.icmp_signed("<", b.xor(rest, divisor), i64(0))
    return b.and_(b.icmp_signed("!=", rest, i64(0)), differ)


def _shifted_left(b: Builder, x: IR, count: IR) -> IR:
    known = _constant(count)
    if known is not None:
        return b.shl(x, count) if 0 <= known < 64 else i64(0)
    shifted = b.shl(x, b.and_(count, i64(63)))
    return b.select(b.icmp_unsigned("<", count, i64(64)), shifted, i64(0))


def _shifted_right(b: Builder, x: IR, count: IR) -> IR:
    known = _constant(count)
    if known is not None:
        return b.ashr(x, i64(known if 0 <= known < 64 else 63))
    fits = b.icmp_unsigned("<", count, i64(64))
    return b.ashr(x, b.select(fits, count, i64(63)))


_OTHERS: dict[type[ast.operator], Callable[[Builder, IR, IR], IR]] = {
    ast.FloorDiv: _floor_divided, ast.Mod: _modulo,
    ast.LShift: _shifted_left, ast.RShift: _shifted_right,
}  # fmt: skip


def _constant(x: IR) -> int | None:
    return int(x.constant) if isinstance(x, ir.Constant) else None


def compare(b: Builder, op: ast.cmpop, x: IR, y: IR) -> IR:
    """``x op y`` as a bool; NaN differs from everything."""
    how = _COMPARISONS[type(op)]
    if x.type != f64:
        return b.icmp_signed(how, x, y)
    return b.fcmp_unordered(how, x, y) if how == "!=" else b.fcmp_ordered(how, x, y)


def is_zero(b: Builder, x: IR) -> IR:
    """Whether an integer is 0."""
    return b.icmp_signed("==", x, i64(0))


def maximum(b: Builder, x: IR, y: IR) -> IR:
    """``y if y > x else x``."""
    return b.select(compare(b, ast.Gt(), y, x), y, x)


def minimum(b: Builder, x: IR, y: IR) -> IR:
    """``y if y < x else x``."""
    return b.select(compare(b, ast.Lt(), y, x), y, x)


def absolute(b: Builder, x: IR) -> IR:
    """``abs(x)``; the least integer is its own."""
    if x.type == f64:
        return call(b, "llvm.fabs.f64", f64, x)
    return call(b, "llvm.abs.i64", i64, x, i1(0))


def truncated(b: Builder, x: IR) -> IR:
    """``int(x)`` of a float, within the bounds of int64; 0 of NaN."""
    return call(b, "llvm.fptosi.sat.i64.f64", i64, x)


def logarithmic(name: str, module: IR, machine: Target) -> IR:
    """The function ``exp``, ``log`` or ``log1p`` in a module, written at its first use. LLVM
    inlines it, and vectorizes loops around it."""
    symbol = f"{module.name}.{name}"
    function = module.globals.get(symbol)
    if function is None:
        function = ir.Function(module, ir.FunctionType(f64, [f64]), symbol)
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        b = Builder(function.append_basic_block())
        b.ret(_FUNCTIONS[name](Num(Scalars(b, machine), function.args[0])).value)
    return function
