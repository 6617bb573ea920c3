"""Conversion of float16 and bfloat16 in memory to and from float32, the type of computations.

Rounding is to nearest, ties to even. Integer arithmetic emulates float16 if the processor has no
instructions for it.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, Vectors, bfloat, f32, f64, i16, i32
from fl_tensor import dtypes
from fl_tensor.dtypes import DType


def widen(of: Vectors, dtype: DType, bits: IR) -> IR:
    """The float32 values of 16-bit patterns."""
    b = of.b
    if dtype is dtypes.bfloat16:
        return b.bitcast(b.shl(b.zext(bits, of.of(i32)), of.constant(i32, 16)), of.of(f32))
    if of.target.has_half:
        return b.fpext(b.bitcast(bits, of.of(ir.HalfType())), of.of(f32))
    return _widen_float16(of, b.zext(bits, of.of(i32)))


def narrow(of: Vectors, dtype: DType, x: IR) -> IR:
    """The 16-bit patterns nearest to float32 numbers."""
    b = of.b
    if dtype is dtypes.bfloat16:
        return b.trunc(b.lshr(_rounded_bfloat16(of, x), of.constant(i32, 16)), of.of(i16))
    if of.target.has_half:
        return b.bitcast(b.fptrunc(x, of.of(ir.HalfType())), of.of(i16))
    return b.trunc(_narrow_float16(of, b.bitcast(x, of.of(i32))), of.of(i16))


def narrow_sums(of: Vectors, dtype: DType, x: IR) -> IR:
    """Like ``narrow``, for sums of products.

    It uses one instruction for bfloat16 where available. Like the instruction for products, that
    one treats subnormal numbers as zero.
    """
    if dtype is not dtypes.bfloat16 or not of.target.has_bfloat_products or of.lanes not in (8, 16):
        return narrow(of, dtype, x)
    name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * of.lanes}"
    return of.b.bitcast(of.call(name, of.of(bfloat), x), of.of(i16))


def rounded(of: Vectors, dtype: DType, x: IR) -> IR:
    """float32 numbers rounded to the precision of the narrow dtype, as float32."""
    if dtype is dtypes.bfloat16:
        return of.b.bitcast(_rounded_bfloat16(of, x), of.of(f32))
    return widen(of, dtype, narrow(of, dtype, x))


def odd(of: Vectors, x: IR) -> IR:
    """float64 rounded to odd as float32, so that a second rounding is correct.

    Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
    """
    b = of.b
    near = b.fptrunc(x, of.of(f32))
    back = b.fpext(near, of.of(f64))
    bits = b.bitcast(near, of.of(i32))
    one, zero = of.constant(i32, 1), of.constant(i32, 0)
    even = b.icmp_signed("==", b.and_(bits, one), zero)
    inexact = b.fcmp_ordered("!=", back, x)
    low = b.fcmp_ordered("<", of.unary("fabs", back), of.unary("fabs", x))
    moved = b.select(low, b.add(bits, one), b.sub(bits, one))
    return b.bitcast(b.select(b.and_(even, inexact), moved, bits), of.of(f32))


def _rounded_bfloat16(of: Vectors, x: IR) -> IR:
    # The result is an int32 pattern whose lower half is 0.
    b = of.b
    bits = b.bitcast(x, of.of(i32))
    last = b.and_(b.lshr(bits, of.constant(i32, 16)), of.constant(i32, 1))
    nearest = b.add(bits, b.add(last, of.constant(i32, 0x7FFF)))
    quiet = b.or_(bits, of.constant(i32, 0x400000))
    nan = b.fcmp_unordered("uno", x, x)
    return b.and_(b.select(nan, quiet, nearest), of.constant(i32, 0xFFFF0000))


#: float32's exponent bias minus float16's, at the position of the exponent.
_REBIAS = 112 << 23


def _widen_float16(of: Vectors, bits: IR) -> IR:
    b = of.b

    def c(value: int) -> IR:
        return of.constant(i32, value)

    sign = b.shl(b.and_(bits, c(0x8000)), c(16))
    magnitude = b.and_(bits, c(0x7FFF))
    normal = b.add(b.shl(magnitude, c(13)), c(_REBIAS))
    special = b.icmp_unsigned(">=", magnitude, c(0x7C00))  # infinities and NaN
    normal = b.select(special, b.add(normal, c(_REBIAS)), normal)
    count = b.fmul(b.uitofp(magnitude, of.of(f32)), of.constant(f32, 2.0**-24))
    small = b.icmp_unsigned("<", magnitude, c(0x0400))
    return b.bitcast(b.or_(b.select(small, b.bitcast(count, of.of(i32)), normal), sign), of.of(f32))


def _narrow_float16(of: Vectors, bits: IR) -> IR:
    b = of.b

    def c(value: int) -> IR:
        return of.constant(i32, value)

    sign = b.lshr(b.and_(bits, c(0x80000000)), c(16))
    magnitude = b.and_(bits, c(0x7FFFFFFF))
    last = b.and_(b.lshr(magnitude, c(13)), c(1))
    normal = b.lshr(b.add(b.sub(magnitude, c(_REBIAS)), b.add(last, c(0xFFF))), c(13))
    # Adding 1/2 rounds subnormal numbers at the 24th binary place.
    shifted = b.fadd(b.bitcast(magnitude, of.of(f32)), of.constant(f32, 0.5))
    subnormal = b.sub(b.bitcast(shifted, of.of(i32)), c(0x3F000000))
    half_bits = b.select(b.icmp_unsigned("<", magnitude, c(0x38800000)), subnormal, normal)
    # From 65520 on, infinite.
    half_bits = b.select(b.icmp_unsigned(">=", magnitude, c(0x477FF000)), c(0x7C00), half_bits)
    half_bits = b.select(b.icmp_unsigned(">", magnitude, c(0x7F800000)), c(0x7E00), half_bits)
    return b.or_(half_bits, sign)
