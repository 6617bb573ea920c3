"""Methods of the backend that call one NumPy ufunc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fl_memory import selection
from fl_tensor import rules
from fl_tensor.backends.numpy import errstate, memory, sums
from fl_tensor.backends.numpy.adapter import TO_NUMPY, Number, NumpyAdapter, adapt
from fl_tensor.dtypes import HALF, DType, accumulator, bfloat16, sum_dtype

Value = NumpyAdapter
Array: TypeAlias = np.ndarray[Any, Any]

_FLOAT32 = np.dtype(np.float32)
_new, _ndarray, _quietly = object.__new__, np.ndarray, errstate.run
#: Bytes below which it does not pay to ask whether operands have the same shape.
_LITTLE = 4096

# A small result has as little Python around the ufunc as there can be, hence what is written out
# twice, and names that are found at once: a call more would be a tenth of ``x + y``.


def unary(ufunc: Callable[..., Array]) -> Any:
    """The method of an elementwise function with one operand. It has ``ufunc`` as attribute."""

    def operation(self: Any, x: Value) -> Value:
        a = x.array
        nbytes = a.nbytes
        if nbytes >= selection.always_small:
            out = memory.empty(a.shape, a.dtype)
            return NumpyAdapter(errstate.writing(nbytes)(ufunc, a, out=out), x.dtype)
        try:
            found: Any = _quietly(ufunc, a)
        except RuntimeError:
            found = errstate.concurrent(ufunc, a)
        if found.__class__ is not _ndarray:
            return adapt(found, x.dtype)
        made = _new(NumpyAdapter)
        made.array = found
        made.dtype = x.dtype
        return made

    vars(operation)["ufunc"] = ufunc
    return operation


def owned(function: Callable[[Array], Array]) -> Any:
    """As ``unary``, for functions that choose the dtype of their result and have no ``out``."""

    @errstate.quiet
    def operation(self: Any, x: Value) -> Value:
        return adapt(memory.owned(np.asarray(function(x.array))))

    return operation


def rounding(ufunc: Callable[..., Array]) -> Any:
    """As ``unary``, for what leaves integers as they are."""
    round_parts = unary(ufunc)

    def operation(self: Any, x: Value) -> Value:
        return x if x.dtype.is_integer else round_parts(self, x)

    return operation


def binary(
    ufunc: Callable[..., Array],
    result: DType | None = None,
    scalar: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """The method of an elementwise function with two operands, whose results are of dtype
    ``result`` or that of the operands; ``scalar`` is the same function for two numbers. It has
    these three as attributes."""

    def operation(self: Any, x: Any, y: Any) -> Value:
        if scalar and type(x) is Number is type(y) and selection.always_small > 8:
            try:
                found: Any = _quietly(scalar, x.number, y.number)
            except RuntimeError:
                found = errstate.concurrent(scalar, x.number, y.number)
            number = _new(Number)
            number.number = found
            number.dtype = x.dtype
            return number
        a, b = x.array, y.array
        dtype = result or x.dtype
        nbytes, shape = a.nbytes * b.size, None  # no broadcasting makes more of it
        if nbytes >= _LITTLE and a.shape == b.shape:
            nbytes, shape = a.nbytes, a.shape
        if nbytes >= selection.always_small:
            out = memory.empty(shape or np.broadcast(a, b).shape, TO_NUMPY[dtype])
            return NumpyAdapter(errstate.writing(out.nbytes)(ufunc, a, b, out=out), dtype)
        try:
            found = _quietly(ufunc, a, b)
        except RuntimeError:
            found = errstate.concurrent(ufunc, a, b)
        if found.__class__ is not _ndarray:
            return adapt(found, dtype)
        made = _new(NumpyAdapter)
        made.array = found
        made.dtype = dtype
        return made

    vars(operation).update(ufunc=ufunc, result=result, scalar=scalar)
    return operation


def single(array: Array, dtype: DType) -> Value:
    """An array without axes as a number, unless the manager wants all there is in its blocks."""
    return adapt(array[()], dtype) if memory.is_small(array.nbytes) else NumpyAdapter(array, dtype)


def wide(x: Value) -> Array:
    """What to accumulate: half precision as float32; the result is rounded once."""
    return x.array.astype(np.float32) if x.dtype in HALF else x.array


def sortable(x: Value) -> Array:
    """What to sort: ml_dtypes would leave a NaN where it stands."""
    return x.array.astype(np.float32) if x.dtype is bfloat16 else x.array


def reduction(ufunc: Any, accumulate: bool) -> Any:
    """The method of a reduction; sums and products ``accumulate`` in a wider dtype."""
    # dtype -> that of the result, NumPy's to accumulate in, whether the result is rounded to half,
    # and the function for many rows
    reduce = ufunc.reduce
    kinds: dict[DType, tuple[DType, np.dtype[Any] | None, bool, Any]]
    kinds = {dtype: (dtype, None, False, None) for dtype in TO_NUMPY}
    if accumulate:
        rows = sums.total if ufunc is np.add else None
        for x in TO_NUMPY:
            wider = sum_dtype(x)
            by_rows = rows if wider.is_floating or wider.kind == "c" else None
            kinds[x] = wider, TO_NUMPY[accumulator(x)], x in HALF, by_rows

    def operation(self: Any, x: Value, axis: tuple[int, ...], keepdims: bool = False) -> Value:
        a, out, run = x.array, None, reduce
        dtype, target, half, by_rows = kinds[x.dtype]
        if by_rows and a.size > sums.BLOCK and sums.adds_rows(a, axis):
            run = by_rows
        if a.size * dtype.itemsize >= selection.always_small and not half:
            kept = rules.reduction(x, axis, keepdims, dtype).shape
            out = memory.empty(kept, TO_NUMPY[dtype])
        try:
            found: Any = _quietly(run, a, axis, target, out, keepdims)
        except RuntimeError:
            found = errstate.concurrent(run, a, axis, target, out, keepdims)
        if half:
            found = memory.cast(np.asarray(found), TO_NUMPY[dtype])
        if found.__class__ is not _ndarray:
            return adapt(found, dtype)
        made = _new(NumpyAdapter)
        made.array = found
        made.dtype = dtype
        return made

    return operation
