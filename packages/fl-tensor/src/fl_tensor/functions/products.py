"""Public products with arguments to parse: strides, subscripts, pairs of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from fl_tensor import arguments, rules
from fl_tensor.arguments import Pairs, axis_of, pairs_of, per_axis, refuse
from fl_tensor.dispatch.frontend import ArrayLike, answer, operands_of, prepare_all, run
from fl_tensor.errors import ArgumentError, ShapeError

__all__ = [
    "conv",
    "conv_data_gradient",
    "conv_weight_gradient",
    "cross",
    "einsum",
    "matmul",
    "tensordot",
    "vecdot",
]

Sizes = int | Sequence[int]


def matmul(x: ArrayLike, y: ArrayLike) -> Any:
    """Matrix product: (..., m, k) times (..., k, n), leading axes broadcast. A 1-d operand is a row
    on the left, a column on the right, and its axis is dropped from the result."""
    x, y = operands_of("matmul", "NN", x, y)
    left, right = x.shape, y.shape
    if not left or not right:
        raise ShapeError(f"[matmul] x {left} and y {right}: both need at least one axis")
    row, column = len(left) == 1, len(right) == 1
    inner = right[0 if column else -2]
    if left[-1] != inner:
        raise ShapeError(
            f"[matmul] x {left} and y {right}: inner dimensions differ ({left[-1]} != {inner})"
        )
    if not (row or column):
        return run("matmul", x, x._raw, y._raw)
    backend, reshape = x._backend, x._ops().reshape
    a, b = x._raw, y._raw
    if row:
        a = answer("reshape", backend, reshape(a, (1, *left)))
    if column:
        b = answer("reshape", backend, reshape(b, (*right, 1)))
    result = run("matmul", x, a, b)
    kept = left[:-1] if column else right[:-2] + right[-1:]
    return x._wrap(answer("reshape", backend, reshape(result._raw, kept)))


def conv(
    x: ArrayLike,
    w: ArrayLike,
    stride: Sizes = 1,
    padding: Pairs = 0,
    input_dilation: Sizes = 1,
    kernel_dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of ``x`` (batch, channels, *spatial) with ``w`` (features, channels /
    groups, *kernel). ``padding``: an int, an int per axis, or a (low, high) pair per axis, which
    may be negative (cropping); strides and dilations: an int, or one per spatial axis. An axis of
    n elements and a kernel of k gives ``((n - 1) * input_dilation + low + high - (k - 1) *
    kernel_dilation) // stride + 1``."""
    x, w = operands_of("conv", "NN", x, w)
    n = x.ndim - 2
    if n < 1:
        raise ShapeError(f"[conv] x {x.shape}: expected (batch, channels, *spatial)")
    options = _options("conv", n, stride, padding, input_dilation, kernel_dilation, groups)
    return run("conv", x, x._raw, w._raw, *options)


def conv_data_gradient(
    gradient: ArrayLike,
    w: ArrayLike,
    shape: Sequence[int],
    stride: Sizes = 1,
    padding: Pairs = 0,
    input_dilation: Sizes = 1,
    kernel_dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """The gradient of an array of ``shape`` (batch, channels, *spatial), ``gradient`` being that of
    its ``conv`` with ``w`` and the same arguments; also known as dgrad, and as transposed
    convolution. Raises ShapeError where ``gradient`` is not shaped as that convolution."""
    name = "conv_data_gradient"
    gradient, w = operands_of(name, "NN", gradient, w)
    whole = arguments.shape_of(name, shape)
    n = max(len(whole) - 2, 1)
    options = _options(name, n, stride, padding, input_dilation, kernel_dilation, groups)
    return run(name, gradient, gradient._raw, w._raw, whole, *options)


def conv_weight_gradient(
    gradient: ArrayLike,
    x: ArrayLike,
    shape: Sequence[int],
    stride: Sizes = 1,
    padding: Pairs = 0,
    input_dilation: Sizes = 1,
    kernel_dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """The gradient of weights of ``shape`` (features, channels / groups, *kernel), ``gradient``
    being that of the ``conv`` of ``x`` with them and the same arguments; also known as wgrad.
    Raises ShapeError where ``gradient`` is not shaped as that convolution."""
    name = "conv_weight_gradient"
    gradient, x = operands_of(name, "NN", gradient, x)
    whole = arguments.shape_of(name, shape)
    n = max(len(whole) - 2, 1)
    options = _options(name, n, stride, padding, input_dilation, kernel_dilation, groups)
    return run(name, gradient, gradient._raw, x._raw, whole, *options)


def _options(
    op: str,
    n: int,
    stride: Sizes,
    padding: Pairs,
    input_dilation: Sizes,
    kernel_dilation: Sizes,
    groups: int,
) -> tuple[Any, ...]:
    # What a convolution over n spatial axes is given beside its arrays.
    return (
        per_axis(op, stride, n, "stride"),
        pairs_of(op, padding, n, "padding"),
        per_axis(op, input_dilation, n, "input_dilation"),
        per_axis(op, kernel_dilation, n, "kernel_dilation"),
        arguments.int_of(op, groups, "groups"),
    )


def einsum(subscripts: str, *operands: ArrayLike) -> Any:
    """Sums of products by the names of axes: ``einsum("ij,jk->ik", x, y)`` is a matrix product.

    A name that the result lacks is summed, a repeated one takes the diagonal, ``...`` stands for
    axes that broadcast. Without ``->`` the result has the axes of ``...`` and the names that occur
    once, in alphabetical order. The result has the operands' common dtype. Raises ArgumentError for
    subscripts that cannot be read, ShapeError for sizes that do not fit.
    """
    xs = einsum_operands("einsum", subscripts, operands)
    return run("einsum", xs[0], [x._raw for x in xs], subscripts)


def einsum_operands(op: str, subscripts: Any, operands: Sequence[ArrayLike]) -> list[Any]:
    """The operands of an Einstein sum as arrays of one dtype. Raises ArgumentError unless the
    subscripts are a string."""
    if not isinstance(subscripts, str):
        raise ArgumentError(
            f"[{op}] expected subscripts such as 'ij,jk->ik' first, got {type(subscripts).__name__}"
        )
    return prepare_all(op, "N", operands)


def tensordot(x: ArrayLike, y: ArrayLike, axes: int | Sequence[Any] = 2) -> Any:
    """Sums of products over several axes. ``axes``: a pair of axes or of sequences of axes, of
    ``x`` and of ``y``; or n, for the last n of ``x`` and the first n of ``y``. The result has the
    other axes of ``x``, then those of ``y``."""
    x, y = operands_of("tensordot", "NN", x, y)
    if arguments.is_single(axes):
        n = arguments.int_of("tensordot", axes, "axes")
        if not 0 <= n <= min(x.ndim, y.ndim):
            raise ShapeError(f"[tensordot] x {x.shape} and y {y.shape}: no {n} axes to sum over")
        pair = (tuple(range(x.ndim - n, x.ndim)), tuple(range(n)))
    else:
        given = tuple(axes)  # type: ignore[arg-type]
        if len(given) != 2:
            raise ArgumentError(f"[tensordot] axes {axes!r}: expected an int or a pair")
        pair = (_axes(given[0], x.shape), _axes(given[1], y.shape))
        if len(pair[0]) != len(pair[1]):
            raise ArgumentError(f"[tensordot] axes {axes!r}: as many of x as of y are needed")
    return run("tensordot", x, x._raw, y._raw, pair)


def _axes(given: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    # In the order given: it says which axis of x meets which of y.
    numbers = arguments.ints_of("tensordot", given, "axes")
    found = tuple(axis_of("tensordot", n, shape) for n in numbers)
    if len(set(found)) != len(found):
        raise ShapeError(f"[tensordot] x {shape}: axes {numbers} name one axis twice")
    return found


def vecdot(x: ArrayLike, y: ArrayLike, axis: int = -1, **foreign: NoReturn) -> Any:
    """``sum(conj(x) * y)`` along ``axis``, where sizes must be equal; the other axes broadcast.
    ``axis`` counts in the broadcast shape."""
    if foreign:
        refuse("vecdot", foreign)
    x, y = operands_of("vecdot", "NN", x, y)
    widest = x.shape if x.ndim >= y.ndim else y.shape
    return run("vecdot", x, x._raw, y._raw, axis_of("vecdot", axis, widest))


def cross(x: ArrayLike, y: ArrayLike, axis: int = -1, **foreign: NoReturn) -> Any:
    """Vector product along ``axis``, which has size 3; the other axes broadcast. ``axis`` counts in
    the broadcast shape."""
    if foreign:
        refuse("cross", foreign)
    x, y = operands_of("cross", "NN", x, y)
    shape = rules.broadcast("cross", x.shape, y.shape)
    at = axis_of("cross", axis, shape)
    back = at - len(shape)
    for v in (x, y):
        if v.ndim < -back or v.shape[back] != 3:
            raise ShapeError(f"[cross] x {x.shape} and y {y.shape}: axis {back} must have size 3")
    if x.ndim != y.ndim:
        x, y = (run("broadcast_to", v, v._raw, shape) for v in (x, y))
    return run("cross", x, x._raw, y._raw, at)
