"""Rules of the pooling operations: their gradients are operations of the contract, too, which
backends may have kernels for."""

from __future__ import annotations

from typing import Any

from fl_autograd.rules.table import rule

Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


def _max_pool(ops: Any, g: Any, x: Any, window: Shape, stride: Shape, padding: Padding) -> Any:
    # To the first maximum of each window; the composition's gradient would share it among ties.
    return ops.max_pool_gradient(g, x, window, stride, padding)


def _avg_pool(
    ops: Any,
    g: Any,
    x_shape: Shape,
    window: Shape,
    stride: Shape,
    padding: Padding,
    count_include_pad: bool,
) -> Any:
    return ops.avg_pool_gradient(g, x_shape, window, stride, padding, count_include_pad)


rule("max_pool", x=_max_pool)
rule("avg_pool", x=_avg_pool)
