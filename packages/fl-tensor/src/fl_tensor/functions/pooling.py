"""Public pooling functions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor.arguments import Pairs, pairs_of, per_axis, shape_of
from fl_tensor.derived.pooling import Padding, lowest, pool_output_sizes
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.errors import ShapeError
from fl_tensor.roles import Scalar

__all__ = ["avg_pool", "avg_pool_gradient", "max_pool", "max_pool_gradient"]

Sizes = int | Sequence[int]


def max_pool(
    x: ArrayLike,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Pairs = 0,
    *,
    ceil_mode: bool = False,
    dilation: Sizes = 1,
) -> Any:
    """The largest element of each window of ``x`` (batch, channels, *spatial). ``stride`` defaults
    to the window; padding never wins.

    ``ceil_mode``: a last window may reach over the end, if it starts before the padding there.
    ``dilation``: the elements of a window are so many places apart. Both follow PyTorch. Raises
    ShapeError for windows that do not fit.
    """
    x = operand("max_pool", "R", x)
    n = max(x.ndim - 2, 1)
    size = per_axis("max_pool", window, n, "window")
    step = size if stride is None else per_axis("max_pool", stride, n, "stride")
    pairs = pairs_of("max_pool", padding, n, "padding")
    if dilation != 1:
        apart = per_axis("max_pool", dilation, n, "dilation")
        return _dilated_max_pool(x, size, step, pairs, bool(ceil_mode), apart)
    if ceil_mode:
        pairs = _over_the_end("max_pool", x.shape, size, step, pairs)
    return run("max_pool", x, x._raw, size, step, pairs)


def avg_pool(
    x: ArrayLike,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Pairs = 0,
    count_include_pad: bool = True,
    *,
    ceil_mode: bool = False,
) -> Any:
    """The mean of each window of ``x`` (batch, channels, *spatial). ``stride`` defaults to the
    window; padding counts as zeros, or not at all with ``count_include_pad=False``.

    ``ceil_mode``: as in ``max_pool``; what a window reaches over the end never counts. Raises
    ShapeError for windows that do not fit.
    """
    x = operand("avg_pool", "F", x)
    n = max(x.ndim - 2, 1)
    size = per_axis("avg_pool", window, n, "window")
    step = size if stride is None else per_axis("avg_pool", stride, n, "stride")
    pairs = pairs_of("avg_pool", padding, n, "padding")
    if ceil_mode:
        wide = _over_the_end("avg_pool", x.shape, size, step, pairs)
        if count_include_pad and wide != pairs:
            # Padding counts, and is therefore put on; what is beyond it does not.
            x = _padded(x, pairs, 0)
            pairs = tuple((0, end - high) for (_, high), (_, end) in zip(pairs, wide))
            count_include_pad = False
        else:
            pairs = wide
    return run("avg_pool", x, x._raw, size, step, pairs, count_include_pad)


def _over_the_end(
    op: str, shape: tuple[int, ...], size: Sequence[int], step: Sequence[int], padding: Padding
) -> Padding:
    """The padding with which the windows of ``ceil_mode`` fit: no less than ``padding``."""
    wide = []
    for n, k, s, (low, high) in zip(shape[2:], size, step, padding):
        if s > 0:
            last = -(-(n + low + high - k) // s) * s  # where the last window starts
            last -= s if last >= n + low else 0
            high = max(high, last + k - n - low)
        wide.append((low, high))
    pool_output_sizes(op, shape, tuple(size), tuple(step), tuple(wide))
    return tuple(wide)


def _dilated_max_pool(
    x: Any,
    size: tuple[int, ...],
    step: tuple[int, ...],
    padding: Padding,
    ceil_mode: bool,
    apart: tuple[int, ...],
) -> Any:
    """Axis by axis, the elements of each window are brought side by side, and then pooled. The
    last axis comes first: of equal elements the first in C order gets the gradient."""
    if min(apart) < 1:
        raise ShapeError(f"[max_pool] x {x.shape}: dilation {apart} must be at least 1")
    spans = tuple(d * (k - 1) + 1 for d, k in zip(apart, size))
    if ceil_mode:
        padding = _over_the_end("max_pool", x.shape, spans, step, padding)
    sizes = pool_output_sizes("max_pool", x.shape, spans, step, padding)
    x = _padded(x, padding, lowest(x.dtype))
    for i in reversed(range(len(size))):
        axis, k = i + 2, size[i]
        starts, steps, shape = [0] * x.ndim, [1] * x.ndim, list(x.shape)
        steps[axis], shape[axis] = step[i], sizes[i]
        places = []
        for starts[axis] in range(0, spans[i], apart[i]):
            places.append(run("slice", x, x._raw, tuple(starts), tuple(shape), tuple(steps))._raw)
        x = run("stack", x, places, axis + 1)
        shape[axis] *= k
        x = run("reshape", x, x._raw, tuple(shape))
        window = tuple(k if j == i else 1 for j in range(len(size)))
        x = run("max_pool", x, x._raw, window, window, ((0, 0),) * len(size))
    return x


def _padded(x: Any, padding: Padding, value: Scalar) -> Any:
    if not any(low or high for low, high in padding):
        return x
    low, high = ((0, 0, *(pair[i] for pair in padding)) for i in (0, 1))
    return run("pad", x, x._raw, low, high, (0,) * x.ndim, value)


def max_pool_gradient(
    gradient: ArrayLike,
    x: ArrayLike,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Pairs = 0,
) -> Any:
    """The gradient of ``x`` (batch, channels, *spatial), ``gradient`` being that of ``max_pool``
    with the same window, stride and padding: each element goes to the first maximum of its window
    in C order, and nowhere where that is NaN. Raises ShapeError where ``gradient`` is not shaped as
    the pooling."""
    name = "max_pool_gradient"
    gradient, x = operands_of(name, "SS", gradient, x)
    n = max(x.ndim - 2, 1)
    size = per_axis(name, window, n, "window")
    step = size if stride is None else per_axis(name, stride, n, "stride")
    pairs = pairs_of(name, padding, n, "padding")
    return run(name, gradient, gradient._raw, x._raw, size, step, pairs)


def avg_pool_gradient(
    gradient: ArrayLike,
    shape: Sequence[int],
    window: Sizes,
    stride: Sizes | None = None,
    padding: Pairs = 0,
    count_include_pad: bool = True,
) -> Any:
    """The gradient of an array of ``shape`` (batch, channels, *spatial), ``gradient`` being that of
    its ``avg_pool`` with the same arguments, without ``ceil_mode``. Raises ShapeError where it is
    not shaped as that."""
    name = "avg_pool_gradient"
    gradient = operand(name, "S", gradient)
    whole = shape_of(name, shape)
    n = max(len(whole) - 2, 1)
    size = per_axis(name, window, n, "window")
    step = size if stride is None else per_axis(name, stride, n, "stride")
    pairs = pairs_of(name, padding, n, "padding")
    return run(name, gradient, gradient._raw, whole, size, step, pairs, count_include_pad)
