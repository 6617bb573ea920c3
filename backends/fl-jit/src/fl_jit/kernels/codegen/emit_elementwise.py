"""Vector code of elementwise instructions, with the semantics of the tensor contract.

Where the contract leaves the result open, it is NumPy's: integers divided by zero give 0. Shifts by
the number of bits or more, and floats out of an integer's range, give unspecified numbers without a
trap.
"""

from __future__ import annotations

from fl_jit.kernels.codegen import elementary, half
from fl_jit.kernels.codegen.vector_ops import Num
from fl_jit.kernels.codegen.vectors import (
    IR,
    Vectors,
    element_type,
    f32,
    f64,
    i1,
    i32,
    i64,
    mangled,
)
from fl_tensor import dtypes
from fl_tensor.dtypes import DType


def emit(of: Vectors, op: str, dtype: DType, *operands: IR) -> IR:
    """The result of ``op`` on vectors of ``dtype``, rounded to it once."""
    if dtype.kind == "b":
        return _of_bools(of, op, *operands)
    if dtype.is_integer:
        return _of_integers(of, op, dtype.kind == "i", *operands)
    result = _of_floats(of, op, *operands)
    if dtype in dtypes.HALF and op not in ("equal", "less", "negative", "absolute"):
        return half.rounded(of, dtype, result)
    return result


# --- bool -----------------------------------------------------------------------------------------


def _of_bools(of: Vectors, op: str, x: IR, *rest: IR) -> IR:
    b = of.b
    if op == "bitwise_invert":
        return b.not_(x)
    (y,) = rest
    if op in ("bitwise_and", "minimum"):
        return b.and_(x, y)
    if op in ("bitwise_or", "maximum"):
        return b.or_(x, y)
    if op == "less":
        return b.and_(b.not_(x), y)
    return b.not_(b.xor(x, y)) if op == "equal" else b.xor(x, y)


# --- integers -------------------------------------------------------------------------------------


def _of_integers(of: Vectors, op: str, signed: bool, x: IR, *rest: IR) -> IR:
    b = of.b
    zero = of.like(x, 0)
    compare = b.icmp_signed if signed else b.icmp_unsigned
    if op in ("floor", "ceil", "round"):
        return x
    if op == "negative":
        return b.sub(zero, x)
    if op == "absolute":
        return b.select(compare("<", x, zero), b.sub(zero, x), x)
    if op == "sign":
        one = of.like(x, 1)
        positive = b.select(compare(">", x, zero), one, zero)
        return b.select(compare("<", x, zero), of.like(x, -1), positive)
    if op == "bitwise_invert":
        return b.not_(x)
    (y,) = rest
    if op in _PLAIN:
        return getattr(b, _PLAIN[op])(x, y)
    if op in ("equal", "less"):
        return compare("==" if op == "equal" else "<", x, y)
    if op in ("maximum", "minimum"):
        return b.select(compare(">" if op == "maximum" else "<", x, y), x, y)
    if op.startswith("bitwise"):
        shift = b.and_(y, of.like(y, x.type.element.width - 1))
        if op == "bitwise_left_shift":
            return b.shl(x, shift)
        return b.ashr(x, shift) if signed else b.lshr(x, shift)
    if op == "power":
        return _integer_power(of, x, y)
    return _integer_quotient(of, op, signed, x, y)


_PLAIN = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
}


def _integer_quotient(of: Vectors, op: str, signed: bool, x: IR, y: IR) -> IR:
    b = of.b
    zero, one = of.like(x, 0), of.like(x, 1)
    undefined = b.icmp_signed("==", y, zero)
    if not signed:
        divisor = b.select(undefined, one, y)
        result = b.udiv(x, divisor) if op == "floor_divide" else b.urem(x, divisor)
        return b.select(undefined, zero, result)
    # The smallest integer divided by -1 would trap. The result is -x, the remainder 0.
    opposite = b.icmp_signed("==", y, of.like(y, -1))
    divisor = b.select(b.or_(undefined, opposite), one, y)
    quotient = b.sdiv(x, divisor)
    remainder = b.sub(x, b.mul(quotient, divisor))
    differ = b.icmp_signed("<", b.xor(remainder, divisor), zero)
    below = b.and_(differ, b.icmp_signed("!=", remainder, zero))
    if op == "remainder":
        result = b.select(below, b.add(remainder, divisor), remainder)
        return b.select(undefined, zero, result)
    result = b.select(below, b.sub(quotient, one), quotient)
    return b.select(undefined, zero, b.select(opposite, b.sub(zero, x), result))


def _integer_power(of: Vectors, x: IR, y: IR) -> IR:
    # Exponentiation by squaring, until all exponents are 0.
    b, lanes = of.b, of.lanes
    before = b.block
    loop, done = b.append_basic_block("power"), b.append_basic_block("powered")
    one, zero = of.like(x, 1), of.like(x, 0)
    b.branch(loop)
    b.position_at_end(loop)
    result, base, left = (b.phi(x.type) for _ in range(3))
    for phi, start in ((result, one), (base, x), (left, y)):
        phi.add_incoming(start, before)
    odd = b.icmp_signed("!=", b.and_(left, one), zero)
    product = b.select(odd, b.mul(result, base), result)
    squared, halved = b.mul(base, base), b.lshr(left, one)
    for phi, value in ((result, product), (base, squared), (left, halved)):
        phi.add_incoming(value, loop)
    more = b.icmp_signed("!=", halved, zero)
    b.cbranch(of.call(f"llvm.vector.reduce.or.v{lanes}i1", i1, more), loop, done)
    b.position_at_end(done)
    return product


# --- floats ---------------------------------------------------------------------------------------

_INTRINSICS = {
    "absolute": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
}
_ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}


def _of_floats(of: Vectors, op: str, x: IR, *rest: IR) -> IR:
    b = of.b
    if op in _INTRINSICS:
        return of.unary(_INTRINSICS[op], x)
    if op == "negative":
        return b.fneg(x)
    if op == "sign":
        n = Num(of, x)
        positive = Num(of, of.like(x, 1.0)).where(n.compare(">", 0.0), n + 0.0)  # of -0.0: 0.0
        return Num(of, of.like(x, -1.0)).where(n.compare("<", 0.0), positive).value
    if op in elementary.FUNCTIONS:
        return elementary.apply(of, op, x, *rest)
    (y,) = rest
    if op in _ARITHMETIC:
        return getattr(b, _ARITHMETIC[op])(x, y)
    if op in ("equal", "less"):
        return b.fcmp_ordered("==" if op == "equal" else "<", x, y)
    if op in ("maximum", "minimum"):
        # Either of two zeros is correct.
        return of.call(f"llvm.{op}.{mangled(x.type)}", x.type, x, y, flags=("nsz",))
    return _float_quotient(Num(of, x), Num(of, y), op).value


def _float_quotient(x: Num, y: Num, op: str) -> Num:
    # Like Python and NumPy, from the exact remainder of a truncated division.
    b = x.of.b
    remainder = x.new(b.frem(x.value, y.value))
    integral = (x - remainder) / y
    zero = remainder.compare("==", 0.0)
    differ = b.xor(y.compare("<", 0.0), remainder.compare("<", 0.0))
    below = b.and_(differ, b.not_(zero))
    if op == "remainder":
        nothing = x.new(x.raw(0.0)).copysign(y)
        return nothing.where(zero, (remainder + y).where(below, remainder))
    integral = (integral - 1.0).where(below, integral)
    floor = x.new(x.of.unary("floor", integral.value))
    floor = (floor + 1.0).where((integral - floor).compare(">", 0.5), floor)
    quotient = x / y
    floor = x.new(x.raw(0.0)).copysign(quotient).where(integral.compare("==", 0.0), floor)
    return quotient.where(y.compare("==", 0.0), floor)


# --- conversion -----------------------------------------------------------------------------------


def cast(of: Vectors, source: DType, target: DType, x: IR) -> IR:
    """``x`` of ``source`` as ``target``."""
    b = of.b
    if source is target:
        return x
    if target.kind == "b":
        if source.is_floating:
            return b.fcmp_unordered("!=", x, of.like(x, 0.0))
        return b.icmp_signed("!=", x, of.like(x, 0))
    if source.is_floating:
        if target.is_floating:
            return _between_floats(of, source, target, x)
        return _truncated(of, target, x)
    vector_type = of.of(element_type(target))
    if target.is_floating:
        converted = (b.sitofp if source.kind == "i" else b.uitofp)(x, vector_type)
        return half.rounded(of, target, converted) if target in dtypes.HALF else converted
    bits = 1 if source.kind == "b" else 8 * source.itemsize
    if 8 * target.itemsize < bits:
        return b.trunc(x, vector_type)
    if 8 * target.itemsize == bits:
        return x
    return (b.sext if source.kind == "i" else b.zext)(x, vector_type)


def _between_floats(of: Vectors, source: DType, target: DType, x: IR) -> IR:
    b = of.b
    if target is dtypes.float64:
        return b.fpext(x, of.of(f64))
    if source is dtypes.float64:
        if target is dtypes.float32:
            return b.fptrunc(x, of.of(f32))
        return half.rounded(of, target, half.odd(of, x))
    # Between the half precisions, or from float32. Widening to float32 is exact.
    return x if target is dtypes.float32 else half.rounded(of, target, x)


def _truncated(of: Vectors, target: DType, x: IR) -> IR:
    # Through the 32-bit or 64-bit integer that C compilers use, then modulo 2^bits.
    b = of.b
    wide = i64 if target.itemsize == 8 or target is dtypes.uint32 else i32

    def saturated(name: str) -> IR:
        kind = of.of(wide)
        return of.call(f"llvm.{name}.sat.{mangled(kind)}.{mangled(x.type)}", kind, x)

    integer = saturated("fptosi")
    if target is dtypes.uint64:
        integer = b.select(b.fcmp_ordered("<", x, of.like(x, 0.0)), integer, saturated("fptoui"))
    vector_type = of.of(element_type(target))
    return integer if integer.type == vector_type else b.trunc(integer, vector_type)
