"""Products by BLAS, convolutions and recurrences by NumPy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fl_memory import selection
from fl_tensor import rules
from fl_tensor.backends.numpy import conv, errstate, integer_matmul, memory, recurrent
from fl_tensor.backends.numpy.adapter import NumpyAdapter
from fl_tensor.backends.numpy.ufuncs import wide
from fl_tensor.derived import sequence
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dtypes import HALF
from fl_tensor.roles import Shape

Array: TypeAlias = np.ndarray[Any, Any]
Value = NumpyAdapter
Padding: TypeAlias = tuple[tuple[int, int], ...]


class Contractions(DerivedOps):
    """Mixed into the backend."""

    #: Products of two matrices with at most so many multiplications are ``ndarray.dot``'s, which
    #: begins sooner than ``np.matmul``; all others are ``large_matmul``'s.
    small_matmul: int = 1 << 18

    def matmul(self, x: Value, y: Value) -> Value:
        a, b = x.array, y.array
        if (
            a.ndim == 2 == b.ndim
            and a.shape[1] == len(b)
            and x.dtype not in HALF
            and a.size * b.shape[1] <= self.small_matmul
            and len(a) * b.shape[1] * a.itemsize < selection.always_small
        ):
            try:  # inlined ``errstate.call``: one Python call less
                return NumpyAdapter(errstate.run(a.dot, b), x.dtype)
            except RuntimeError:
                return NumpyAdapter(errstate.concurrent(a.dot, b), x.dtype)
        out = self.large_matmul(x, y, rules.product(a.shape, b.shape))
        return NumpyAdapter(_rounded(out, x), x.dtype)

    def large_matmul(self, x: Value, y: Value, shape: Shape) -> Array:
        """The product, of that shape; of half precision in float32. A backend that derives from
        this one overrides it to have large products from another library."""
        a, b = (wide(x), wide(y)) if x.dtype in HALF else (x.array, y.array)
        out = memory.empty(shape, a.dtype)
        multiply = integer_matmul.product if a.dtype.kind in "iu" else np.matmul
        errstate.writing(out.nbytes)(multiply, a, b, out)
        return out

    @errstate.quiet
    def conv(
        self,
        x: Value,
        w: Value,
        stride: tuple[int, ...],
        padding: tuple[tuple[int, int], ...],
        input_dilation: tuple[int, ...],
        kernel_dilation: tuple[int, ...],
        groups: int = 1,
    ) -> Value:
        rest = (stride, padding, input_dilation, kernel_dilation, groups)
        out = self.convolved(x, w, *rest, rules.conv(x, w, *rest).shape)
        return NumpyAdapter(_rounded(out, x), x.dtype)

    def convolved(
        self,
        x: Value,
        w: Value,
        stride: Shape,
        padding: Padding,
        input_dilation: Shape,
        kernel_dilation: Shape,
        groups: int,
        shape: Shape,
    ) -> Array:
        """The convolution, of that shape; of half precision in float32. To be overridden as
        ``large_matmul``."""
        rest = (stride, padding, input_dilation, kernel_dilation, groups)
        a, b = (wide(x), wide(w)) if x.dtype in HALF else (x.array, w.array)
        return conv.convolve(a, b, *rest, shape)

    @errstate.quiet
    def recurrent(
        self,
        x: Value,
        state: Value,
        weight: Value,
        bias: Value | None = None,
        cell: str = "tanh",
        lengths: Shape | None = None,
        reverse: bool = False,
    ) -> Value:
        if x.dtype in HALF:
            return super().recurrent(x, state, weight, bias, cell, lengths, reverse)
        sequence.check_recurrent(x, state, weight, bias, cell, lengths)
        arrays = (x.array, state.array, weight.array, None if bias is None else bias.array)
        return NumpyAdapter(recurrent.sweep(*arrays, cell, lengths, reverse), x.dtype)


def _rounded(out: Array, x: Value) -> Array:
    return out if out.dtype == x.array.dtype else memory.cast(out, x.array.dtype)
