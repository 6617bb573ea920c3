"""``EagerBackend``: the eager execution path of ``jit``.

It computes with NumPy. Large GEMMs and convolutions go to the kernel library
(``fl_jit.kernels``).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fl_jit.eager import conv_dispatch, gemm_dispatch
from fl_jit.kernels import registry
from fl_tensor.backends.numpy import NumpyBackend, errstate, memory
from fl_tensor.backends.numpy.adapter import NumpyAdapter
from fl_tensor.backends.numpy.ufuncs import wide
from fl_tensor.dtypes import HALF
from fl_tensor.roles import Shape

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
            out = gemm_dispatch.matmul(wide(x), wide(y), shape)
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
            out = conv_dispatch.convolve(wide(x), wide(w), *rest)
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
            out = conv_dispatch.data_gradient(wide(gradient), wide(w), shape, *rest)
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
            out = conv_dispatch.weight_gradient(wide(gradient), wide(x), shape, *rest)
        if out is None:
            return super().conv_weight_gradient(gradient, x, shape, *rest)
        return NumpyAdapter(_rounded(out, x), x.dtype)


def _rounded(out: Array, x: Value) -> Array:
    return out if out.dtype == x.array.dtype else memory.cast(out, x.array.dtype)
