"""``EagerBackend``: the eager execution path of ``jit``.

It computes with NumPy. Large GEMMs and convolutions go to the kernel library
(``fl_jit.kernels``).
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from fl_jit.eager.array_layouts import address
from fl_jit.eager.kernel_calls import ConvParameters
from fl_jit.eager.kernel_dispatch import dispatch, is_large
from fl_jit.kernels import registry
from fl_tensor.dtypes import HALF, float32, float64
from fl_tensor.extend import Shape
from fl_tensor.extend.numpy import NumpyAdapter, NumpyBackend, errstate, memory
from fl_tensor.extend.rules import check_conv_gradient

Array: TypeAlias = np.ndarray[Any, Any]
Value = NumpyAdapter
Padding: TypeAlias = tuple[tuple[int, int], ...]

#: Elements from which a kernel adds faster than NumPy's scan does.
_LEAST_SCAN = 4096
#: Matrices from which a kernel inverts them, and rows of the largest: more are LAPACK's.
_LEAST_INVERSES, _LARGEST_INVERSE = 256, 8


class EagerBackend(NumpyBackend):
    """NumPy with dispatch to a kernel library. NumPy computes the operations that no library
    supports. A library is queried in the dtype of the operands first. For half precision it is then
    queried in float32, the accumulation dtype."""

    def __init__(self) -> None:
        # For kernel tests: every size goes to the library.
        if registry.is_for_everything():
            self.small_matmul = 0

    def large_matmul(self, x: Value, y: Value, shape: Shape) -> Array:
        out = _dispatched("matmul", x, y, shape)
        return super().large_matmul(x, y, shape) if out is None else out

    def cumulative_sum(self, x: Value, axis: int = -1) -> Value:
        a = x.array
        along_rows = a.flags.c_contiguous and math.prod(a.shape[axis:]) == a.shape[axis]
        if a.size < _LEAST_SCAN or not along_rows or x.dtype not in (float32, float64):
            return super().cumulative_sum(x, axis)
        from fl_jit.kernels.codegen import scan

        out, size = memory.empty(a.shape, a.dtype), a.shape[axis]
        scan.cumulative_sum(x.dtype, address(a), address(out), a.size // size, size)
        return NumpyAdapter(out, x.dtype)

    def inv(self, x: Value) -> Value:
        size = x.shape[-1] if len(x.shape) > 2 else 0
        count = math.prod(x.shape[:-2])
        is_small = 0 < size <= _LARGEST_INVERSE and x.shape[-2] == size
        if x.dtype is not float32 or count < _LEAST_INVERSES or not is_small:
            return super().inv(x)
        from fl_jit.kernels.llvm import small_inverse

        a = np.ascontiguousarray(x.array)
        out = memory.empty(a.shape, a.dtype)
        if not small_inverse.invert(address(a), address(out), count, size):
            return super().inv(x)
        return NumpyAdapter(out, x.dtype)

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
        rest = ConvParameters(stride, padding, input_dilation, kernel_dilation, groups)
        out = _dispatched("conv", x, w, shape, rest)
        return super().convolved(x, w, *rest, shape) if out is None else out

    @errstate.quiet
    def conv_data_gradient(
        self,
        gradient: Value,
        w: Value,
        shape: Shape,
        stride: Shape,
        padding: Padding,
        input_dilation: Shape,
        kernel_dilation: Shape,
        groups: int = 1,
    ) -> Value:
        rest = ConvParameters(stride, padding, input_dilation, kernel_dilation, groups)
        out = _dispatched("conv_data_gradient", gradient, w, shape, rest)
        if out is None:
            return super().conv_data_gradient(gradient, w, shape, *rest)
        return NumpyAdapter(_rounded(out, gradient), gradient.dtype)

    @errstate.quiet
    def conv_weight_gradient(
        self,
        gradient: Value,
        x: Value,
        shape: Shape,
        stride: Shape,
        padding: Padding,
        input_dilation: Shape,
        kernel_dilation: Shape,
        groups: int = 1,
    ) -> Value:
        rest = ConvParameters(stride, padding, input_dilation, kernel_dilation, groups)
        out = _dispatched("conv_weight_gradient", gradient, x, shape, rest)
        if out is None:
            return super().conv_weight_gradient(gradient, x, shape, *rest)
        return NumpyAdapter(_rounded(out, x), x.dtype)


def _dispatched(
    op: str, x: Value, y: Value, shape: Shape, parameters: ConvParameters | None = None
) -> Array | None:
    # The result by a kernel library: in the dtype of the operands, or for half precision in
    # float32. Raises ShapeError where a gradient has another shape than its convolution.
    if not is_large(op, x.shape, y.shape, shape, x.dtype):
        return None
    if parameters is not None and op != "conv":
        image, w = (shape, y.shape) if op == "conv_data_gradient" else (y.shape, shape)
        check_conv_gradient(op, x.shape, image, w, *parameters)
    out = dispatch(op, x.array, y.array, shape, parameters)
    if out is None and x.dtype in HALF:
        out = dispatch(op, _float32(x), _float32(y), shape, parameters)
    return out


def _float32(x: Value) -> Array:
    return x.array.astype(np.float32)


def _rounded(out: Array, x: Value) -> Array:
    return out if out.dtype == x.array.dtype else memory.cast(out, x.array.dtype)
