"""Inverses of many small float32 matrices.

Gauss-Jordan elimination with partial pivoting, in float64 and unrolled: a row is a vector. Rows are
exchanged by selections, without branches. A matrix that is singular, nearly so, or not finite is
reported instead: LAPACK decides then what becomes of it.
"""

from __future__ import annotations

import functools

from llvmlite import ir

from fl_jit.kernels.codegen import compile, shared_items, target
from fl_jit.kernels.codegen.arg_struct import ArgStruct, address, array
from fl_jit.kernels.codegen.builder import vector_type
from fl_jit.kernels.codegen.function import SIGNATURE
from fl_jit.kernels.codegen.vectors import IR, call, f32, f64, i1, i32, i64, mangled
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.loop_nest import FunctionBuilder

#: A pivot has to exceed this part of the sum of all elements: float64 then leaves more digits than
#: float32 has.
_SMALLEST_PIVOT = 2.0**-40
#: Nanoseconds for each multiplication.
_NANOSECONDS = 0.4

_FIELDS = ArgStruct("source target failed")


class _Elimination(FunctionBuilder):
    """The function of all matrices of ``size`` x ``size``."""

    def __init__(self, module: IR, size: int) -> None:
        super().__init__(ir.Function(module, SIGNATURE, "inverses"))
        block, begin, end, _ = self.function.args
        self.args = _FIELDS.fields(self.b, block)
        self.size, self.kind = size, vector_type(f64, size)
        source, result, failed = map(self.address, (self.args[n] for n in _FIELDS.names))
        row_bytes = 4 * size
        with self.loop(begin, end) as number:
            start = self.b.mul(number, i64(size * row_bytes))
            rows = [self._load(self.at(self.at(source, start), i * row_bytes)) for i in range(size)]
            inverse, good = self._inverse(rows)
            for i, row in enumerate(inverse):
                narrow = self.b.fptrunc(row, vector_type(f32, size))
                self.b.store(narrow, self.at(self.at(result, start), i * row_bytes), align=4)
            with self.when(self.b.not_(good)):
                self.b.store(i64(1), failed)
        self.b.ret_void()

    def _inverse(self, a: list[IR]) -> tuple[list[IR], IR]:
        # The rows of the inverse, and whether all pivots were large enough.
        b, numbers = self.b, range(self.size)
        limit = b.fmul(self._total(a), f64(_SMALLEST_PIVOT))
        identity = [self.kind([float(i == j) for j in numbers]) for i in numbers]
        rows = [list(pair) for pair in zip(a, identity, strict=True)]
        good: IR = i1(1)
        for k in numbers:
            for other in range(k + 1, self.size):
                larger = b.fcmp_ordered(">", self._size(rows[other], k), self._size(rows[k], k))
                pairs = list(zip(rows[k], rows[other], strict=True))
                rows[k] = [b.select(larger, theirs, mine) for mine, theirs in pairs]
                rows[other] = [b.select(larger, mine, theirs) for mine, theirs in pairs]
            good = b.and_(good, b.fcmp_ordered(">", self._size(rows[k], k), limit))
            scale = self._splat(b.fdiv(f64(1.0), b.extract_element(rows[k][0], i32(k))))
            rows[k] = [b.fmul(part, scale) for part in rows[k]]
            for other in numbers:
                if other != k:
                    factor = self._splat(b.extract_element(rows[other][0], i32(k)))
                    parts = zip(rows[other], rows[k], strict=True)
                    rows[other] = [b.fsub(part, b.fmul(factor, pivot)) for part, pivot in parts]
        return [made for _, made in rows], good

    def _load(self, at: IR) -> IR:
        row = self.b.load(at, typ=vector_type(f32, self.size), align=4)
        return self.b.fpext(row, self.kind)

    def _total(self, rows: list[IR]) -> IR:
        # The sum of all magnitudes: not finite unless all elements are.
        sums = functools.reduce(self.b.fadd, [self._magnitude(row) for row in rows])
        parts = [self.b.extract_element(sums, i32(i)) for i in range(self.size)]
        return functools.reduce(self.b.fadd, parts)

    def _size(self, row: list[IR], column: int) -> IR:
        return self._magnitude(self.b.extract_element(row[0], i32(column)))

    def _magnitude(self, x: IR) -> IR:
        return call(self.b, f"llvm.fabs.{mangled(x.type)}", x.type, x)

    def _splat(self, x: IR) -> IR:
        first = self.b.insert_element(ir.Constant(self.kind, ir.Undefined), x, i32(0))
        places = vector_type(i32, self.size)([0] * self.size)
        return self.b.shuffle_vector(first, first, places)


@compile.once
def _code(size: int) -> compile.Code:
    def assembly() -> str:
        module = ir.Module("inverses")
        module.triple = target.triple()
        _Elimination(module, size)
        return str(module)

    about = f"inverses {size} {_SMALLEST_PIVOT} {compile.sources(FOLDER)}"
    return compile.load(about, assembly, target.host())


def invert(source: int, result: int, count: int, size: int) -> bool:
    """Invert ``count`` float32 matrices ``size`` x ``size`` in C order from the address
    ``source`` to ``result``. False where one has to be left to LAPACK; the results are
    undefined then."""
    failed = array([0])
    function = _code(size).address("inverses")
    work = _NANOSECONDS * count * size**3
    shared_items.run(function, count, work, (source, result, address(failed)))
    return not failed[0]
