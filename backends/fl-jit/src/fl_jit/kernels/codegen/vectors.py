"""Typed vectors in LLVM IR: the basis of instruction selection.

A value of a dtype is a vector of ``lanes`` elements. bool is a vector of bits, and integers have
their own type. float64 is double. float32 and half precision are float; half precision values are
representable in the narrow dtype. ``vector_ops.Num`` adds Python's operators to floating vectors.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from fl_jit.kernels.codegen.builder import Integer, vector_type
from fl_jit.kernels.codegen.target import Target
from fl_tensor import dtypes
from fl_tensor.dtypes import DType

IR: TypeAlias = Any  # llvmlite has no type information

i1, i8, i16, i32, i64 = (Integer(bits) for bits in (1, 8, 16, 32, 64))
f32, f64 = ir.FloatType(), ir.DoubleType()
pointer = ir.PointerType()


def element_type(dtype: DType) -> IR:
    """The type of an element in registers."""
    if dtype.kind == "b":
        return i1
    if dtype.kind == "f":
        return f64 if dtype is dtypes.float64 else f32
    return ir.IntType(8 * dtype.itemsize)


def memory_type(dtype: DType) -> IR:
    """The type of an element in memory."""
    if dtype.kind == "b":
        return i8
    if dtype in dtypes.HALF:
        return i16
    return element_type(dtype)


def lane_type(kind: IR) -> IR:
    """The type of an element of a vector type; a scalar type itself."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


bfloat = _BFloat()


class _Splat(ir.Constant):
    """A vector constant of equal elements in LLVM's short form.

    llvmlite's constant has an object per lane.
    """

    def __init__(self, vector: IR, text: str) -> None:
        self.type = vector
        self.constant = text

    def _get_reference(self) -> str:
        return str(self.constant)


@functools.cache
def _indices(indices: tuple[int, ...]) -> IR:
    """The mask of a shuffle, cached so that its text is written once."""
    return ir.Constant(ir.VectorType(i32, len(indices)), list(indices))


class Vectors:
    """Instructions on vectors, appended at the position of ``builder``."""

    def __init__(self, builder: IR, target: Target, lanes: int) -> None:
        self.b = builder
        self.target = target
        self.lanes = lanes

    # types and constants

    def of(self, element: IR) -> IR:
        """The vector type of ``element``s."""
        return vector_type(element, self.lanes)

    def constant(self, element: IR, value: complex) -> IR:
        """``value`` in every lane."""
        return self._constant(self.of(element), element, value)

    def like(self, x: IR, value: complex) -> IR:
        """``value`` in every lane of a vector of ``x``'s type."""
        return self._constant(x.type, lane_type(x.type), value)

    def _constant(self, vector: IR, element: IR, value: Any) -> IR:
        if isinstance(element, ir.IntType):
            bits = element.width
            value = int(value) & ((1 << bits) - 1)
            text = ("false", "true")[value] if bits == 1 else str(value)
        else:
            value = float(value)
            if element is f32:
                value = _to_float32(value)
            text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
        return _Splat(vector, f"splat ({element} {text})")

    def iota(self, element: IR) -> IR:
        """0, 1, 2, ..."""
        return ir.Constant(self.of(element), list(range(self.lanes)))

    def splat(self, scalar: IR) -> IR:
        """``scalar`` in every lane."""
        unset = _Splat(self.of(scalar.type), "poison")
        first = self.b.insert_element(unset, scalar, i32(0))
        zeros = _Splat(vector_type(i32, self.lanes), "zeroinitializer")
        return self.b.shuffle_vector(first, unset, zeros)

    # functions of LLVM

    def call(self, name: str, result: IR, *operands: IR, flags: Sequence[str] = ()) -> IR:
        """LLVM's intrinsic ``name``, declared if it is new; ``flags`` are fast-math flags."""
        return call(self.b, name, result, *operands, flags=flags)

    def unary(self, name: str, x: IR) -> IR:
        """The intrinsic ``llvm.name`` of one vector."""
        return self.call(f"llvm.{name}.{mangled(x.type)}", x.type, x)

    def fma(self, x: IR, y: IR, z: IR) -> IR:
        """``x * y + z``, rounded once if the processor has an instruction for it."""
        if not self.target.has_fma:
            return self.b.fadd(self.b.fmul(x, y), z)
        return self.exact_fma(x, y, z)

    def exact_fma(self, x: IR, y: IR, z: IR) -> IR:
        """``x * y + z``, always rounded once; possibly slow."""
        return self.call(f"llvm.fma.{mangled(x.type)}", x.type, x, y, z)

    def pairwise_multiply_add(self, x: IR, y: IR, z: IR) -> IR:
        """``x0 * y0 + x1 * y1 + z``, for pairs of bfloat16 in int32 ``x`` and ``y``, and float32
        ``z``.

        Subnormal numbers count as zero.
        """
        pairs = ir.VectorType(bfloat, 2 * self.lanes)
        x, y = (self.b.bitcast(pair, pairs) for pair in (x, y))
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.lanes}"
        return self.call(name, z.type, z, x, y)

    def polynomial(self, coefficients: tuple[float, ...], x: IR) -> IR:
        """Horner's rule; the constant term is first."""
        total = self.like(x, coefficients[-1])
        for c in coefficients[-2::-1]:
            total = self.fma(total, x, self.like(x, c))
        return total

    def shuffle(self, x: IR, y: IR, indices: list[int]) -> IR:
        """The elements of the concatenation of ``x`` and ``y`` at ``places``."""
        return self.b.shuffle_vector(x, y, _indices(tuple(indices)))

    def horizontal(self, x: IR, combine: Callable[[IR, IR], IR]) -> IR:
        """All lanes combined, as a scalar, in a tree of fixed shape: halves with halves."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low = list(range(lanes))
            upper = self.shuffle(x, x, [lanes + i for i in low])
            x = combine(self.shuffle(x, x, low), upper)
        return self.b.extract_element(x, i32(0))

    def transposed(self, square: list[IR]) -> list[IR]:
        """The transpose of a square, given as one vector per row."""
        rows, lanes = list(square), range(self.lanes)
        half = self.lanes // 2
        while half:
            # Swap two quarters of squares of size 2 * ``half``: upper right and lower left.
            low = [i + self.lanes - half if i & half else i for i in lanes]
            high = [i + self.lanes if i & half else i + half for i in lanes]
            for i in [i for i in lanes if not i & half]:
                pair = rows[i], rows[i + half]
                rows[i], rows[i + half] = self.shuffle(*pair, low), self.shuffle(*pair, high)
            if half > 1:
                rows = [self._fenced(x) for x in rows]
            half //= 2
        return rows

    def _fenced(self, x: IR) -> IR:
        """The same vector, opaque to LLVM.

        LLVM would otherwise search for shuffles that replace chains of shuffles. That takes longer
        than all other optimizations and finds none.
        """
        if x.type.element not in (f32, f64):
            return x
        return self.unary("arithmetic.fence", x)

    # memory

    def load(self, element: IR, address: IR, mask: IR | None = None) -> IR:
        """A vector of contiguous elements; masked-out lanes are 0."""
        vector = self.of(element)
        align = element_bytes(element)
        if mask is None:
            return self.b.load(address, typ=vector, align=align)
        name = f"llvm.masked.load.{mangled(vector)}.p0"
        zero = self.constant(element, 0)
        return self.call(name, vector, address, i32(align), mask, zero)

    def store(self, value: IR, address: IR, mask: IR | None = None, streams: bool = False) -> None:
        """Store contiguous elements, where ``mask`` is set.

        ``streams``: a non-temporal store. The address of a whole vector is then a multiple of its
        size, or of 64 bytes if that is less.
        """
        align = element_bytes(value.type.element)
        if mask is None:
            wide = min(align * self.lanes, 64)
            made = self.b.store(value, address, align=wide if streams else align)
            if streams:
                made.set_metadata("nontemporal", self.b.module.add_metadata([i32(1)]))
            return
        name = f"llvm.masked.store.{mangled(value.type)}.p0"
        self.call(name, ir.VoidType(), value, address, i32(align), mask)

    def load_every_second(self, element: IR, address: IR, mask: IR | None) -> IR:
        """Elements 0, 2, 4, ... from ``address``, where ``mask`` is set; none behind the last is
        read.
        """
        lanes = self.lanes
        behind = self.b.gep(address, [i64(lanes - 1)], source_etype=element)
        masks: list[IR | None] = [None, None]
        if mask is not None:
            halves = [[(first + k + 1) // 2 for k in range(lanes)] for first in (0, lanes - 1)]
            masks = [self.shuffle(mask, mask, half) for half in halves]
        low, high = (self.load(element, at, m) for at, m in zip((address, behind), masks))
        return self.shuffle(low, high, [2 * k + (2 * k >= lanes) for k in range(lanes)])

    def prefetch(self, address: IR, level: int = 1) -> None:
        """Prefetch the cache line at ``address`` to the cache of a ``level``.

        The address may be invalid.
        """
        self.call("llvm.prefetch.p0", ir.VoidType(), address, i32(0), i32(4 - level), i32(1))

    def distances(self, stride: IR) -> IR:
        """Distances from the first of elements that are ``stride`` apart."""
        return self.b.mul(self.splat(stride), self.iota(i64))

    def gather(self, element: IR, address: IR, distances: IR, mask: IR | None) -> IR:
        """A vector of the elements at ``distances``, in elements, from ``address``."""
        vector = self.of(element)
        name = f"llvm.masked.gather.{mangled(vector)}.v{self.lanes}p0"
        addresses = self._addresses(element, address, distances)
        align, zero = i32(element_bytes(element)), self.constant(element, 0)
        return self.call(name, vector, addresses, align, self._all(mask), zero)

    def scatter(self, value: IR, address: IR, distances: IR, mask: IR | None) -> None:
        """The reverse of ``gather``."""
        element = value.type.element
        name = f"llvm.masked.scatter.{mangled(value.type)}.v{self.lanes}p0"
        addresses = self._addresses(element, address, distances)
        align = i32(element_bytes(element))
        self.call(name, ir.VoidType(), value, addresses, align, self._all(mask))

    def _addresses(self, element: IR, address: IR, distances: IR) -> IR:
        offsets = self.b.mul(distances, self.constant(i64, element_bytes(element)))
        addresses = self.b.add(self.splat(self.b.ptrtoint(address, i64)), offsets)
        return self.b.inttoptr(addresses, self.of(pointer))

    def _all(self, mask: IR | None) -> IR:
        return self.constant(i1, 1) if mask is None else mask

    def first(self, count: IR) -> IR:
        """A mask of the first ``count`` (int64, not negative) lanes."""
        b, lanes = self.b, i64(self.lanes)  # comparing in 32 bits takes half as many instructions
        count = b.trunc(b.select(b.icmp_signed("<", count, lanes), count, lanes), i32)
        return b.icmp_signed("<", self.iota(i32), self.splat(count))


def call(builder: IR, name: str, result: IR, *operands: IR, flags: Sequence[str] = ()) -> IR:
    """A call of the function ``name``, declared if it is new."""
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        signature = ir.FunctionType(result, [x.type for x in operands])
        function = ir.Function(module, signature, name)
    return builder.call(function, operands, flags)


def mangled(kind: IR) -> str:
    """The name of a type in names of intrinsics, such as ``v16f32``."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{mangled(kind.element)}"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return {f32: "f32", f64: "f64"}[kind]


def element_bytes(element: IR) -> int:
    """Bytes of an element in memory."""
    if isinstance(element, ir.IntType):
        return max(int(element.width) // 8, 1)
    return 8 if element is f64 else 4


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
