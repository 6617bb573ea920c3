"""Cumulative sums along the last axis.

A row is one chain of additions in float64, of which each result is rounded once. It begins with
-0.0, which changes no number. The NumPy backend has the same results. Threads share the rows.
"""

from __future__ import annotations

from fl_jit.kernels.codegen import compile, shared_items, target
from fl_tensor import dtypes
from fl_tensor.dtypes import DType

#: LLVM's types, and what makes a float64 of one and back.
_TYPES = {
    dtypes.float32: ("float", "fpext float %x to double", "fptrunc double %total to float"),
    dtypes.float64: ("double", "fadd double %x, -0.0", "fadd double %total, -0.0"),
}
#: Nanoseconds of an addition that waits for the one before.
_NANOSECONDS = 1.3

# The arguments: source, target, elements of a row.
_CODE = """
define void @rows(ptr %arguments, i64 %begin, i64 %end, i64 %worker) {{
  %target_at = getelementptr ptr, ptr %arguments, i64 1
  %size_at = getelementptr i64, ptr %arguments, i64 2
  %source = load ptr, ptr %arguments
  %target = load ptr, ptr %target_at
  %size = load i64, ptr %size_at
  br label %head
head:
  %row = phi i64 [ %begin, %0 ], [ %next_row, %after ]
  %first = mul i64 %row, %size
  %next_row = add i64 %row, 1
  %last = mul i64 %next_row, %size
  %more_rows = icmp slt i64 %row, %end
  br i1 %more_rows, label %body, label %done
body:
  %i = phi i64 [ %first, %head ], [ %next, %body ]
  %before = phi double [ -0.0, %head ], [ %total, %body ]
  %x_at = getelementptr {kind}, ptr %source, i64 %i
  %y_at = getelementptr {kind}, ptr %target, i64 %i
  %x = load {kind}, ptr %x_at
  %wide = {widen}
  %total = fadd double %before, %wide
  %y = {narrow}
  store {kind} %y, ptr %y_at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %last
  br i1 %more, label %body, label %after
after:
  br label %head
done:
  ret void
}}
"""


@compile.once
def _code(dtype: DType) -> compile.Code:
    kind, widen, narrow = _TYPES[dtype]
    text = _CODE.format(kind=kind, widen=widen, narrow=narrow)
    module = f'target triple = "{target.triple()}"\n{text}'
    return compile.load(module, lambda: module, target.host())


def cumulative_sum(dtype: DType, source: int, result: int, rows: int, size: int) -> None:
    """The cumulative sums of ``rows`` of ``size`` elements, at least one each, in C order, from the
    address ``source`` to ``result``. ``dtype`` is float32 or float64."""
    function = _code(dtype).address("rows")
    shared_items.run(function, rows, _NANOSECONDS * rows * size, (source, result, size))
