"""Random operation descriptors, and their results in float64 by the backend ``numpy``."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

import fl_tensor as ft
from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Layout,
    Matmul,
    any_layout,
    channels_last,
    dense,
    row_major,
)
from fl_tensor.dtypes import DType

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]
Operation: TypeAlias = Matmul | Convolution | ConvDataGrad | ConvWeightGrad

OPERATIONS: tuple[type[Operation], ...] = (Matmul, Convolution, ConvDataGrad, ConvWeightGrad)
#: Largest error of an element, in parts of the sum of its terms' absolute values.
TOLERANCES = {"float32": 4e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}
#: Multiply-adds of a descriptor at most.
_MOST_WORK = 2_000_000


def random_descriptor(operation: type[Operation], seed: int, dtype: DType) -> Operation:
    """A descriptor with random sizes, layouts and parameters. Equal seeds give equal ones."""
    rng = np.random.default_rng(seed)
    return _matmul(rng, dtype) if operation is Matmul else _convolution(operation, rng, dtype)


def inputs_of(descriptor: Operation) -> tuple[Any, Any]:
    """The placements of the two inputs, in the order of the call."""
    return descriptor[0], descriptor[1]


def reference(descriptor: Operation, first: Array, second: Array) -> Array:
    """The result for inputs in float64, in float64."""
    with ft.use("numpy"):
        x, y = (ft.asarray(each.astype(np.float64)) for each in (first, second))
        return np.asarray(_compute(descriptor, x, y)).reshape(descriptor.out.shape)


def _compute(descriptor: Operation, x: ft.Tensor, y: ft.Tensor) -> ft.Tensor:
    if isinstance(descriptor, Matmul):
        return x @ y
    spatial = len(descriptor.stride)
    ones = (1,) * spatial
    rest = (descriptor.stride, descriptor.padding, ones, descriptor.dilation, descriptor.groups)
    shape = descriptor.out.shape
    if isinstance(descriptor, ConvWeightGrad):
        return ft.conv_weight_gradient(y, x, _joined(shape, spatial), *rest)
    y = y.reshape(_joined(y.shape, spatial))
    if isinstance(descriptor, Convolution):
        return ft.conv(x, y, *rest)
    return ft.conv_data_gradient(x, y, shape, *rest)


def _joined(weights: Shape, spatial: int) -> Shape:
    # (features, channels / groups, *kernel) of weights, also where groups have their own axis.
    features = math.prod(weights[: -spatial - 1])
    return (features, *weights[-spatial - 1 :])


def _size(rng: np.random.Generator, most: int) -> int:
    # Small sizes are more likely.
    return int(math.exp(rng.uniform(0, math.log(most + 0.99))))


def _layout(rng: np.random.Generator, dtype: DType, shape: Shape, output: bool = False) -> Layout:
    """C order, any order of axes, gaps between elements; negative and zero strides of inputs."""
    order = tuple(range(len(shape)))
    if rng.random() < 0.4:
        order = tuple(int(axis) for axis in rng.permutation(len(shape)))
    strides = list(dense(shape, order))
    if rng.random() < 0.3:
        step = int(rng.integers(1, 3))
        for axis in reversed(order):
            strides[axis] = step
            step = step * shape[axis] + int(rng.integers(0, 4))
    if not output and rng.random() < 0.1:
        strides = [s * int(rng.choice((1, -1, 0))) for s in strides]
    return Layout(dtype, shape, tuple(strides))


def _matmul(rng: np.random.Generator, dtype: DType) -> Matmul:
    batch = tuple(_size(rng, 4) for _ in range(int(rng.integers(0, 3))))
    m, k, n = (_size(rng, 200) for _ in range(3))
    while math.prod(batch) * m * k * n > _MOST_WORK:
        m, k, n = (-(-size // 2) for size in (m, k, n))
    broadcast = [int(rng.integers(3)) for _ in batch]  # in x, in y, in neither
    x = tuple(1 if how == 0 else size for how, size in zip(broadcast, batch, strict=True))
    y = tuple(1 if how == 1 else size for how, size in zip(broadcast, batch, strict=True))
    second = (
        any_layout(dtype, (*y, k, n)) if rng.random() < 0.1 else _layout(rng, dtype, (*y, k, n))
    )
    out = _layout(rng, dtype, (*batch, m, n), output=True)
    return Matmul(_layout(rng, dtype, (*x, m, k)), second, out)


def _convolution(
    operation: type[Operation], rng: np.random.Generator, dtype: DType
) -> Convolution | ConvDataGrad | ConvWeightGrad:
    spatial = int(rng.choice((1, 2, 3), p=(0.2, 0.6, 0.2)))
    groups = int(rng.choice((1, 1, 1, 2, 6)))
    channels, features = (groups * _size(rng, 40 // groups) for _ in range(2))
    batch = _size(rng, 4)
    kernel = tuple(_size(rng, 5) for _ in range(spatial))
    stride, dilation = (
        tuple(int(n) for n in rng.choice((1, 2, 3), spatial, p=(0.7, 0.2, 0.1))) for _ in range(2)
    )
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    padding = tuple((int(rng.integers(r)), int(rng.integers(r))) for r in reach)
    out_size = tuple(_size(rng, 20 if spatial < 3 else 6) for _ in range(spatial))
    size = tuple(
        max((n - 1) * s + r - sum(p) + int(rng.integers(s)), 1)
        for n, s, r, p in zip(out_size, stride, reach, padding, strict=True)
    )
    out_size = tuple(
        (n + sum(p) - r) // s + 1 for n, s, r, p in zip(size, stride, reach, padding, strict=True)
    )

    def image(shape: Shape, output: bool = False) -> Layout:
        if rng.random() < 0.5:
            return channels_last(dtype, shape)
        return _layout(rng, dtype, shape, output)

    x, y = (batch, channels, *size), (batch, features, *out_size)
    w_shape = (features, channels // groups, *kernel)
    w = row_major(dtype, w_shape) if rng.random() < 0.8 else any_layout(dtype, w_shape)
    rest = (stride, padding, dilation, groups)
    if operation is Convolution:
        return Convolution(image(x), w, image(y, output=True), *rest)
    if operation is ConvDataGrad:
        return ConvDataGrad(image(y), w, image(x, output=True), *rest)
    return ConvWeightGrad(image(x), image(y), w, *rest)
