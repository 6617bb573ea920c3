"""``EagerBackend``: the eager execution path of ``jit``.

It computes with NumPy. Large GEMMs, convolutions and pooling go to the kernel library
(``fl_jit.kernels``).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fl_jit.eager import conv_dispatch, gemm_dispatch, pool_dispatch
from fl_jit.kernels import registry
from fl_tensor.dtypes import HALF
from fl_tensor.extend import Shape
from fl_tensor.extend.numpy import NumpyAdapter, NumpyBackend, errstate, memory
from fl_tensor.extend.rules import check_pool_gradient, pool_output_sizes

Array: TypeAlias = np.ndarray[Any, Any]
Value = NumpyAdapter
Padding: TypeAlias = tuple[tuple[int, int], ...]


class EagerBackend(NumpyBackend):
    """NumPy with dispatch to a kernel library. NumPy computes the operations that no library
    supports. A library is queried in the dtype of the operands first. For half precision it is then
    queried in float32, the accumulation dtype."""

    def __init__(self) -> None:
        # For kernel tests: every size goes to the library.
        if registry.is_for_everything():
            self.small_matmul = 0

    def large_matmul(self, x: Value, y: Value, shape: Shape) -> Array:
        out = gemm_dispatch.matmul(x.array, y.array, shape)
        if out is None and x.dtype in HALF:
            out = gemm_dispatch.matmul(_float32(x), _float32(y), shape)
        return super().large_matmul(x, y, shape) if out is None else out

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
        rest = (stride, padding, input_dilation, kernel_dilation, groups, shape)
        out = conv_dispatch.convolve(x.array, w.array, *rest)
        if out is None and x.dtype in HALF:
            out = conv_dispatch.convolve(_float32(x), _float32(w), *rest)
        return super().convolved(x, w, *rest) if out is None else out

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
        rest = (stride, padding, input_dilation, kernel_dilation, groups)
        out = conv_dispatch.data_gradient(gradient.array, w.array, shape, *rest)
        if out is None and gradient.dtype in HALF:
            out = conv_dispatch.data_gradient(_float32(gradient), _float32(w), shape, *rest)
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
        rest = (stride, padding, input_dilation, kernel_dilation, groups)
        out = conv_dispatch.weight_gradient(gradient.array, x.array, shape, *rest)
        if out is None and x.dtype in HALF:
            out = conv_dispatch.weight_gradient(_float32(gradient), _float32(x), shape, *rest)
        if out is None:
            return super().conv_weight_gradient(gradient, x, shape, *rest)
        return NumpyAdapter(_rounded(out, x), x.dtype)

    def max_pool(self, x: Value, window: Shape, stride: Shape, padding: Padding) -> Value:
        rest = (window, stride, padding)
        shape = (*x.shape[:2], *pool_output_sizes("max_pool", x.shape, *rest))
        out = pool_dispatch.pool(x.array, shape, pool_dispatch.maximum(*rest))
        if out is None:
            return super().max_pool(x, *rest)
        return NumpyAdapter(out, x.dtype)

    def avg_pool(
        self,
        x: Value,
        window: Shape,
        stride: Shape,
        padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:
        shape = (*x.shape[:2], *pool_output_sizes("avg_pool", x.shape, window, stride, padding))
        rest = (window, stride, padding, count_include_pad)
        out = pool_dispatch.pool(x.array, shape, pool_dispatch.mean(*rest))
        if out is None:
            return super().avg_pool(x, *rest)
        return NumpyAdapter(out, x.dtype)

    def max_pool_gradient(
        self,
        gradient: Value,
        x: Value,
        window: Shape,
        stride: Shape,
        padding: Padding,
    ) -> Value:
        rest = (window, stride, padding)
        check_pool_gradient("max_pool_gradient", gradient, x.shape, *rest)
        out = pool_dispatch.maximum_gradient(gradient.array, x.array, pool_dispatch.maximum(*rest))
        if out is None:
            return super().max_pool_gradient(gradient, x, *rest)
        return NumpyAdapter(out, x.dtype)

    def avg_pool_gradient(
        self,
        gradient: Value,
        shape: Shape,
        window: Shape,
        stride: Shape,
        padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:
        rest = (window, stride, padding)
        check_pool_gradient("avg_pool_gradient", gradient, shape, *rest)
        windows = pool_dispatch.mean(*rest, count_include_pad)
        out = pool_dispatch.mean_gradient(gradient.array, shape, windows)
        if out is None:
            return super().avg_pool_gradient(gradient, shape, *rest, count_include_pad)
        return NumpyAdapter(out, gradient.dtype)


def _float32(x: Value) -> Array:
    return x.array.astype(np.float32)


def _rounded(out: Array, x: Value) -> Array:
    return out if out.dtype == x.array.dtype else memory.cast(out, x.array.dtype)
