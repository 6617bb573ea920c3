"""Public functions of pooling, and of its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor.arguments import Pairs, pairs_of, per_axis, shape_of
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run

__all__ = ["avg_pool", "avg_pool_gradient", "max_pool", "max_pool_gradient"]

Sizes = int | Sequence[int]


def max_pool(
    x: ArrayLike,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Pairs = 0,
) -> Any:
    """The largest element of each window of ``x`` (batch, channels, *spatial). ``stride`` defaults
    to the window; padding never wins."""
    x = operand("max_pool", "R", x)
    n = max(x.ndim - 2, 1)
    size = per_axis("max_pool", window, n, "window")
    step = size if stride is None else per_axis("max_pool", stride, n, "stride")
    return run("max_pool", x, x._raw, size, step, pairs_of("max_pool", padding, n, "padding"))


def avg_pool(
    x: ArrayLike,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Pairs = 0,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of ``x`` (batch, channels, *spatial). ``stride`` defaults to the
    window; padding counts as zeros, or not at all with ``count_include_pad=False``."""
    x = operand("avg_pool", "F", x)
    n = max(x.ndim - 2, 1)
    size = per_axis("avg_pool", window, n, "window")
    step = size if stride is None else per_axis("avg_pool", stride, n, "stride")
    pairs = pairs_of("avg_pool", padding, n, "padding")
    return run("avg_pool", x, x._raw, size, step, pairs, count_include_pad)


def max_pool_gradient(
    gradient: ArrayLike,
    x: ArrayLike,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Pairs = 0,
) -> Any:
    """The gradient of ``x`` (batch, channels, *spatial), ``gradient`` being that of ``max_pool``
    with the same arguments: each element goes to the first maximum of its window in C order, and
    nowhere where that is NaN. Raises ShapeError where ``gradient`` is not shaped as the pooling."""
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
    its ``avg_pool`` with the same arguments. Raises ShapeError where it is not shaped as that."""
    name = "avg_pool_gradient"
    gradient = operand(name, "S", gradient)
    whole = shape_of(name, shape)
    n = max(len(whole) - 2, 1)
    size = per_axis(name, window, n, "window")
    step = size if stride is None else per_axis(name, stride, n, "stride")
    pairs = pairs_of(name, padding, n, "padding")
    return run(name, gradient, gradient._raw, whole, size, step, pairs, count_include_pad)
