"""Shape and dtype rules: one per primitive, without data.

Arguments that are arrays have ``shape``, ``dtype`` and ``device``; a rule returns a ``Spec``, or
raises the error that a user sees. Derived operations need no rules: their compositions run on the
``null`` backend, which computes with these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from fl_tensor import dtypes
from fl_tensor.device import Device
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError
from fl_tensor.roles import Axes, Axis, Scalar, Shape

__all__ = [
    "Spec", "accumulation", "arange", "argsort", "binary", "broadcast", "broadcast_to", "cast",
    "comparison", "concatenate", "conjugate", "conv", "cumulative_sum", "fail", "from_host", "full",
    "gather", "magnitude", "matmul", "pad", "part", "permute", "product", "random_bits",
    "reduction", "reshape", "scatter", "selection", "slice", "sort", "unary", "where",
]  # fmt: skip


class Spec(NamedTuple):
    """What is known of a value before it is computed."""

    shape: Shape
    dtype: DType
    device: Device


def broadcast(op: str, x: Shape, y: Shape) -> Shape:
    """The common shape of two operands. Raises ShapeError naming both."""
    if x == y:
        return tuple(x)
    rank = max(len(x), len(y))
    left, right = (1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y)
    bad = [i for i in range(rank) if left[i] != right[i] and 1 not in (left[i], right[i])]
    if bad:
        fail(op, x=x, y=y, why=f"sizes {left[bad[0]]} and {right[bad[0]]} do not broadcast")
    return tuple(m if n == 1 else n for m, n in zip(left, right, strict=True))


def fail(op: str, *, why: str, **operands: Sequence[int]) -> NoReturn:
    listed = " and ".join(f"{name} {tuple(shape)}" for name, shape in operands.items())
    raise ShapeError(f"[{op}] {listed}: {why}")


# ---- creation ---------------------------------------------------------------------------------


def full(shape: Shape, value: Scalar, dtype: DType, device: Device) -> Spec:
    return Spec(tuple(shape), dtype, device)


def arange(start: Any, stop: Any, step: Any, dtype: DType, device: Device) -> Spec:
    if step == 0:
        raise ArgumentError("[arange] step is 0")
    return Spec((max(0, math.ceil((stop - start) / step)),), dtype, device)


def from_host(
    data: memoryview, shape: Shape, dtype: DType, device: Device, blocking: bool = True
) -> Spec:
    if data.nbytes != math.prod(shape) * dtype.itemsize:
        raise ShapeError(
            f"[from_host] {data.nbytes} bytes do not fill {tuple(shape)} of {dtype}, "
            f"which takes {math.prod(shape) * dtype.itemsize}"
        )
    return Spec(tuple(shape), dtype, device)


def random_bits(seed: int, offset: int, shape: Shape, device: Device) -> Spec:
    return Spec(tuple(shape), dtypes.int32, device)


# ---- shape ------------------------------------------------------------------------------------


def reshape(x: Any, shape: Shape) -> Spec:
    if math.prod(x.shape) != math.prod(shape):
        fail("reshape", x=x.shape, why=f"{math.prod(x.shape)} elements do not fit {tuple(shape)}")
    return Spec(tuple(shape), x.dtype, x.device)


def permute(x: Any, axes: Axes) -> Spec:
    return Spec(tuple(x.shape[a] for a in axes), x.dtype, x.device)


def broadcast_to(x: Any, shape: Shape) -> Spec:
    if len(shape) < len(x.shape) or broadcast("broadcast_to", x.shape, shape) != tuple(shape):
        fail("broadcast_to", x=x.shape, why=f"does not broadcast to {tuple(shape)}")
    return Spec(tuple(shape), x.dtype, x.device)


def concatenate(xs: Sequence[Any], axis: Axis = 0) -> Spec:
    first = xs[0].shape
    if not first:
        fail("concatenate", xs=first, why="arrays without axes cannot be joined; use stack")
    shapes = [x.shape for x in xs]
    if shapes.count(first) != len(shapes):
        for i, shape in enumerate(shapes):
            if len(shape) != len(first) or any(
                m != n for j, (m, n) in enumerate(zip(first, shape, strict=True)) if j != axis
            ):
                raise ShapeError(
                    f"[concatenate] xs[0] {tuple(first)} and xs[{i}] {tuple(shape)}: "
                    f"shapes must be equal except along axis {axis}"
                )
    total = sum([shape[axis] for shape in shapes])
    return Spec((*first[:axis], total, *first[axis + 1 :]), xs[0].dtype, xs[0].device)


def pad(x: Any, low: Shape, high: Shape, interior: Shape, value: Scalar = 0) -> Spec:
    shape = tuple(
        b + n + a + max(n - 1, 0) * i
        for n, b, a, i in zip(x.shape, low, high, interior, strict=True)
    )
    return Spec(shape, x.dtype, x.device)


def slice(x: Any, starts: Shape, sizes: Shape, steps: tuple[int, ...]) -> Spec:
    for n, start, size, step in zip(x.shape, starts, sizes, steps, strict=True):
        last = start + (size - 1) * step
        if size and not (0 <= start < n and 0 <= last < n):
            fail("slice", x=x.shape, why=f"elements {start} to {last} are not within a size of {n}")
    return Spec(tuple(sizes), x.dtype, x.device)


def gather(x: Any, indices: Any, axis: Axis = 0) -> Spec:
    if not x.shape:
        fail("gather", x=x.shape, why="there is no axis to gather along")
    return Spec((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype, x.device)


def scatter(
    x: Any, indices: Any, updates: Any, axis: Axis = 0, mode: str = "set", donate: bool = False
) -> Spec:
    wanted = gather(x, indices, axis).shape
    if tuple(updates.shape) != wanted:
        fail("scatter", x=x.shape, updates=updates.shape, why=f"updates must be {wanted}")
    return Spec(tuple(x.shape), x.dtype, x.device)


def sort(x: Any, axis: Axis = -1, descending: bool = False) -> Spec:
    return Spec(tuple(x.shape), x.dtype, x.device)


def argsort(x: Any, axis: Axis = -1, descending: bool = False) -> Spec:
    return Spec(tuple(x.shape), dtypes.int64, x.device)


def cumulative_sum(x: Any, axis: Axis = -1) -> Spec:
    return Spec(tuple(x.shape), dtypes.sum_dtype(x.dtype), x.device)


# ---- elementwise ------------------------------------------------------------------------------


def unary(op: str, x: Any) -> Spec:
    return Spec(tuple(x.shape), x.dtype, x.device)


def magnitude(op: str, x: Any) -> Spec:
    """The rule of ``absolute``: real."""
    return Spec(tuple(x.shape), dtypes.real_of(x.dtype), x.device)


def part(op: str, x: Any) -> Spec:
    """The rule of ``real`` and ``imag``."""
    return magnitude(op, conjugate(op, x))


def conjugate(op: str, x: Any) -> Spec:
    if x.dtype.kind != "c":
        raise DTypeError(f"[{op}] x is {x.dtype}: expected a complex dtype here")
    return unary(op, x)


def binary(op: str, x: Any, y: Any) -> Spec:
    if x.dtype is not y.dtype:
        raise DTypeError(f"[{op}] x is {x.dtype} and y is {y.dtype}: operands must agree here")
    return Spec(broadcast(op, x.shape, y.shape), x.dtype, x.device)


def comparison(op: str, x: Any, y: Any) -> Spec:
    return Spec(binary(op, x, y).shape, dtypes.bool, x.device)


def where(condition: Any, x: Any, y: Any) -> Spec:
    shape = broadcast("where", broadcast("where", x.shape, y.shape), condition.shape)
    return Spec(shape, x.dtype, x.device)


def cast(x: Any, dtype: DType) -> Spec:
    return Spec(tuple(x.shape), dtype, x.device)


# ---- reductions and contractions ---------------------------------------------------------------


def reduction(x: Any, axis: Axes, keepdims: bool, dtype: DType) -> Spec:
    if keepdims:
        shape = tuple(1 if i in axis else n for i, n in enumerate(x.shape))
    else:
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axis)
    return Spec(shape, dtype, x.device)


def accumulation(x: Any, axis: Axes, keepdims: bool = False) -> Spec:
    return reduction(x, axis, keepdims, dtypes.sum_dtype(x.dtype))


def selection(op: str, x: Any, axis: Axes, keepdims: bool, dtype: DType) -> Spec:
    """The rule of max, min and argmax: nothing can be chosen from an axis of size 0."""
    if any(x.shape[a] == 0 for a in axis):
        fail(op, x=x.shape, why=f"nothing to choose from along axis {tuple(axis)}")
    return reduction(x, axis, keepdims, dtype)


def matmul(x: Any, y: Any) -> Spec:
    return Spec(product(x.shape, y.shape), x.dtype, x.device)


def product(left: Shape, right: Shape) -> Shape:
    """The shape of a product of matrices. Raises ShapeError naming both."""
    if len(left) < 2 or len(right) < 2:
        fail("matmul", x=left, y=right, why="both need at least two axes")
    if left[-1] != right[-2]:
        why = f"inner dimensions differ ({left[-1]} != {right[-2]})"
        fail("matmul", x=left, y=right, why=why)
    rows_columns = left[-2], right[-1]
    if len(left) == len(right) == 2:
        return rows_columns
    return broadcast("matmul", left[:-2], right[:-2]) + rows_columns


def conv(
    x: Any,
    w: Any,
    stride: Shape,
    padding: tuple[tuple[int, int], ...],
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int = 1,
) -> Spec:
    rest = (stride, padding, input_dilation, kernel_dilation, groups)
    return Spec(convolution(x.shape, w.shape, *rest), x.dtype, x.device)


def convolution(
    x: Shape,
    w: Shape,
    stride: Shape,
    padding: tuple[tuple[int, int], ...],
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int,
    op: str = "conv",
) -> Shape:
    """The shape of a convolution of arrays of the shapes ``x`` and ``w``. Raises ShapeError or
    ArgumentError in the name of ``op``."""
    n = len(x) - 2
    if n < 1 or len(w) != n + 2:
        fail(
            op,
            x=x,
            w=w,
            why="expected (batch, channels, *spatial) and (features, channels / groups, *kernel)",
        )
    if min(*stride, *input_dilation, *kernel_dilation, groups) < 1:
        raise ArgumentError(
            f"[{op}] stride {stride}, dilations {input_dilation} and {kernel_dilation}, "
            f"groups {groups}: all must be at least 1"
        )
    if x[1] % groups or w[0] % groups or x[1] // groups != w[1]:
        fail(
            op,
            x=x,
            w=w,
            why=f"with groups {groups}, channels {x[1]} must be {w[1]} times groups, "
            f"and features {w[0]} divisible by groups",
        )
    out = []
    for i in range(n):
        size, k = x[i + 2], w[i + 2]
        wide = max(size - 1, 0) * input_dilation[i] + min(size, 1)
        reach = max(k - 1, 0) * kernel_dilation[i] + 1
        span = wide + padding[i][0] + padding[i][1] - reach
        if span < 0:
            fail(
                op,
                x=x,
                w=w,
                why=f"spatial axis {i} has {span + reach} elements after dilation and padding, the "
                f"kernel reaches over {reach}",
            )
        out.append(span // stride[i] + 1)
    return (x[0], w[0], *out)
