"""Half precision: a composition of several operations is computed in float32 and rounded once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fl_tensor.dtypes import HALF, DType, float32
from fl_tensor.roles import Ops


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a derived operation: float16 and bfloat16 operands become float32, and a floating
    result, or each of several, what they were. Every operation in between would round otherwise,
    and sums on the way to a mean or a norm overflow."""

    @functools.wraps(function)
    def operation(ops: Ops, x: Any, *rest: Any, **options: Any) -> Any:
        if x.dtype not in HALF:
            return function(ops, x, *rest, **options)
        wide = [ops.cast(v, float32) if getattr(v, "dtype", None) in HALF else v for v in rest]
        result = function(ops, ops.cast(x, float32), *wide, **options)
        if result.__class__ is tuple:
            return tuple([_rounded(ops, each, x.dtype) for each in result])
        return _rounded(ops, result, x.dtype)

    return operation


def _rounded(ops: Ops, result: Any, dtype: DType) -> Any:
    return ops.cast(result, dtype) if result.dtype is float32 else result
