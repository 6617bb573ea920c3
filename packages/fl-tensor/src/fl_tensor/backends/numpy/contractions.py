"""Products, convolutions, recurrences, pooling and batch normalisation: by a provider where there
is one that can (``fl_tensor.backends.providers``), else by BLAS and NumPy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fl_memory import selection
from fl_tensor import rules
from fl_tensor.backends.numpy import (
    conv,
    memory,
    provided,
    provided_conv,
    provided_norm,
    provided_pool,
    quiet,
    recurrent,
)
from fl_tensor.backends.numpy.adapter import NumpyAdapter
from fl_tensor.backends.numpy.ufuncs import wide
from fl_tensor.derived import conv_gradient, pooling, pooling_gradient, sequence
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dtypes import HALF
from fl_tensor.roles import Shape

Array: TypeAlias = np.ndarray[Any, Any]
Value = NumpyAdapter
Padding: TypeAlias = tuple[tuple[int, int], ...]


class Contractions(DerivedOps):
    """Mixed into the backend."""

    def matmul(self, x: Value, y: Value) -> Value:
        a, b = x.array, y.array
        if (
            a.ndim == 2 == b.ndim
            and a.shape[1] == len(b)
            and x.dtype not in HALF
            and provided.is_little(a.size * b.shape[1])
            and len(a) * b.shape[1] * a.itemsize < selection.always_small
        ):
            try:  # ``quiet.call``, which would be a call more; dot begins much sooner than matmul
                return NumpyAdapter(quiet.run(a.dot, b), x.dtype)
            except RuntimeError:
                return NumpyAdapter(quiet.waiting(a.dot, b), x.dtype)
        shape = rules.product(a.shape, b.shape)
        out = provided.matmul(a, b, shape)
        if out is None and x.dtype in HALF:
            a, b = wide(x), wide(y)
            out = provided.matmul(a, b, shape)
        if out is None:
            out = memory.empty(shape, a.dtype)
            quiet.writing(out.nbytes)(np.matmul, a, b, out)
        return NumpyAdapter(_rounded(out, x), x.dtype)

    @quiet.quiet
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
        out_shape = rules.conv(x, w, *rest).shape
        a, b = x.array, w.array
        out = provided_conv.convolve(a, b, *rest, out_shape)
        if out is None and x.dtype in HALF:
            a, b = wide(x), wide(w)
            out = provided_conv.convolve(a, b, *rest, out_shape)
        if out is None:
            out = conv.convolve(a, b, *rest, out_shape)
        return NumpyAdapter(_rounded(out, x), x.dtype)

    @quiet.quiet
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
        conv_gradient.fitting("conv_data_gradient", gradient, shape, w.shape, *rest)
        out = provided_conv.data_gradient(gradient.array, w.array, shape, *rest)
        if out is None and gradient.dtype in HALF:
            out = provided_conv.data_gradient(wide(gradient), wide(w), shape, *rest)
        if out is None:
            return super().conv_data_gradient(gradient, w, shape, *rest)
        return NumpyAdapter(_rounded(out, gradient), gradient.dtype)

    @quiet.quiet
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
        conv_gradient.fitting("conv_weight_gradient", gradient, x.shape, shape, *rest)
        out = provided_conv.weight_gradient(gradient.array, x.array, shape, *rest)
        if out is None and x.dtype in HALF:
            out = provided_conv.weight_gradient(wide(gradient), wide(x), shape, *rest)
        if out is None:
            return super().conv_weight_gradient(gradient, x, shape, *rest)
        return NumpyAdapter(_rounded(out, x), x.dtype)

    # sequences

    @quiet.quiet
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
        sequence.fitting(x, state, weight, bias, cell, lengths)
        arrays = (x.array, state.array, weight.array, None if bias is None else bias.array)
        return NumpyAdapter(recurrent.sweep(*arrays, cell, lengths, reverse), x.dtype)

    # batch normalisation and pooling: a provider's, or the composition

    def batch_norm(
        self,
        x: Value,
        mean: Value,
        variance: Value,
        weight: Value | None = None,
        bias: Value | None = None,
        axis: int = 1,
        eps: float = 1e-5,
    ) -> Value:
        arrays = x.array, mean.array, variance.array, _array(weight), _array(bias)
        out = provided_norm.batch_norm(*arrays, axis, eps)
        if out is None:
            return super().batch_norm(x, mean, variance, weight, bias, axis, eps)
        return NumpyAdapter(out, x.dtype)

    def batch_norm_training(
        self,
        x: Value,
        weight: Value | None = None,
        bias: Value | None = None,
        axis: int = 1,
        eps: float = 1e-5,
    ) -> tuple[Value, Value, Value]:
        arrays = x.array, _array(weight), _array(bias)
        made = provided_norm.batch_norm_training(*arrays, axis, eps)
        if made is None:
            return super().batch_norm_training(x, weight, bias, axis, eps)
        out, mean, variance = [NumpyAdapter(each, x.dtype) for each in made]
        return out, mean, variance

    def batch_norm_gradient(
        self,
        gradient: Value,
        x: Value,
        mean: Value,
        variance: Value,
        weight: Value | None = None,
        axis: int = 1,
        eps: float = 1e-5,
    ) -> tuple[Value, Value, Value]:
        arrays = gradient.array, x.array, mean.array, variance.array, _array(weight)
        made = provided_norm.batch_norm_gradient(*arrays, axis, eps)
        if made is None:
            return super().batch_norm_gradient(gradient, x, mean, variance, weight, axis, eps)
        to_x, to_weight, to_bias = [NumpyAdapter(each, x.dtype) for each in made]
        return to_x, to_weight, to_bias

    def max_pool(self, x: Value, window: Shape, stride: Shape, padding: Padding) -> Value:
        rest = (window, stride, padding)
        shape = (*x.shape[:2], *pooling.output("max_pool", x.shape, *rest))
        out = provided_pool.pool(x.array, shape, provided_pool.maximum(*rest))
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
        shape = (*x.shape[:2], *pooling.output("avg_pool", x.shape, window, stride, padding))
        rest = (window, stride, padding, count_include_pad)
        out = provided_pool.pool(x.array, shape, provided_pool.mean(*rest))
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
        pooling_gradient.fitting("max_pool_gradient", gradient, x.shape, *rest)
        out = provided_pool.maximum_gradient(gradient.array, x.array, provided_pool.maximum(*rest))
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
        pooling_gradient.fitting("avg_pool_gradient", gradient, shape, *rest)
        windows = provided_pool.mean(*rest, count_include_pad)
        out = provided_pool.mean_gradient(gradient.array, shape, windows)
        if out is None:
            return super().avg_pool_gradient(gradient, shape, *rest, count_include_pad)
        return NumpyAdapter(out, gradient.dtype)


def _array(x: Value | None) -> Array | None:
    return None if x is None else x.array


def _rounded(out: Array, x: Value) -> Array:
    return out if out.dtype == x.array.dtype else memory.cast(out, x.array.dtype)
