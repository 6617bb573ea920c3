"""Gradients of pooling.

The gradient has an array of the output's shape per window position; ``_fold`` adds these. Elements
``stride`` apart form a phase of the input. Window positions that differ by a multiple of the stride
fall into one phase. So sums are made per phase at the output's resolution, and the phases are
interleaved once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from fl_tensor.derived.pooling import Padding, pool_output_sizes
from fl_tensor.errors import ShapeError
from fl_tensor.roles import Ops, S, Shape

__all__ = ["avg_pool_gradient", "max_pool_gradient"]

SINCE = {"avg_pool_gradient": "1.1", "max_pool_gradient": "1.1"}


def max_pool_gradient(
    ops: Ops, gradient: S, x: S, window: Shape, stride: Shape, padding: Padding
) -> Any:
    """The gradient of ``x`` (batch, channels, *spatial), ``gradient`` being that of its
    ``max_pool``: it goes to the first maximum of each window in C order, and nowhere where the
    maximum is NaN."""
    check_pool_gradient("max_pool_gradient", gradient, x.shape, window, stride, padding)
    if 0 in x.shape or 0 in gradient.shape:
        return ops.full(x.shape, 0, gradient.dtype, gradient.device)
    shape, pooled = x.shape, ops.max_pool(x, window, stride, padding)
    if any(low or high for low, high in padding):
        low, high = ((0, 0, *(pair[i] for pair in padding)) for i in (0, 1))
        x = ops.pad(x, low, high, (0,) * len(low), float("-inf"))
    zero, steps = ops.constant(0.0, gradient), (1, 1, *stride)
    places: list[Any] = []
    free = None
    for offset in itertools.product(*map(range, window)):
        hit = ops.equal(ops.slice(x, (0, 0, *offset), gradient.shape, steps), pooled)
        first = hit if free is None else ops.bitwise_and(hit, free)
        missed = ops.bitwise_invert(hit)
        free = missed if free is None else ops.bitwise_and(free, missed)
        places.append(ops.where(first, gradient, zero))
    return _fold(ops, places, shape, window, stride, padding)


def avg_pool_gradient(
    ops: Ops,
    gradient: S,
    shape: Shape,
    window: Shape,
    stride: Shape,
    padding: Padding,
    count_include_pad: bool = True,
) -> Any:
    """The gradient of an array of ``shape`` (batch, channels, *spatial), ``gradient`` being that of
    its ``avg_pool``."""
    check_pool_gradient("avg_pool_gradient", gradient, shape, window, stride, padding)
    if 0 in shape or 0 in gradient.shape:
        return ops.full(shape, 0, gradient.dtype, gradient.device)
    # The same weights as forward: the mean of ones is 1 / window, or 1 / what lies inside.
    count = math.prod(window)
    share = ops.divide(gradient, ops.constant(float(count), gradient))
    if not count_include_pad and any(low or high for low, high in padding):
        ones = ops.full((1, 1, *shape[2:]), 1.0, gradient.dtype, gradient.device)
        share = ops.divide(share, ops.avg_pool(ones, window, stride, padding, True))
    return _fold(ops, [share] * count, shape, window, stride, padding)


def check_pool_gradient(
    op: str, gradient: Any, shape: Shape, window: Shape, stride: Shape, padding: Padding
) -> None:
    """Raises ShapeError where ``gradient`` is not shaped as a pooling of an array of ``shape``."""
    wanted = (*shape[:2], *pool_output_sizes(op, shape, window, stride, padding))
    if gradient.shape != wanted:
        raise ShapeError(f"[{op}] gradient {gradient.shape}: pooling x {shape} gives {wanted}")


def _fold(
    ops: Any, places: Sequence[Any], x_shape: Shape, window: Shape, stride: Shape, padding: Padding
) -> Any:
    """The gradient of the input: ``places[j]`` goes to place j (C order) of every window."""
    lead, spatial = tuple(x_shape[:2]), len(window)
    padded = [n + low + high for n, (low, high) in zip(x_shape[2:], padding)]
    extent = [-(-n // s) for n, s in zip(padded, stride)]
    out = places[0].shape[2:]
    phases: dict[Shape, Any] = {}
    for offset, place in zip(itertools.product(*map(range, window)), places):
        shift = [o // s for o, s in zip(offset, stride)]
        after = tuple(e - n - q for e, n, q in zip(extent, out, shift))
        if any(shift) or any(after):
            none = (0, 0)
            place = ops.pad(place, (*none, *shift), (*none, *after), none + (0,) * spatial, 0)
        phase = tuple(o % s for o, s in zip(offset, stride))
        phases[phase] = place if phase not in phases else ops.add(phases[phase], place)
    grid = list(itertools.product(*map(range, stride)))
    if len(grid) > 1:
        empty = None
        if len(phases) < len(grid):
            like = places[0]
            empty = ops.full((*lead, *extent), 0, like.dtype, like.device)
        stacked = ops.stack([phases.get(phase, empty) for phase in grid], 0)
        stacked = ops.reshape(stacked, (*stride, *lead, *extent))
        order = [spatial, spatial + 1]
        for i in range(spatial):
            order += [spatial + 2 + i, i]
        sizes = tuple(e * s for e, s in zip(extent, stride))
        whole = ops.reshape(ops.permute(stacked, tuple(order)), (*lead, *sizes))
    else:
        whole = phases[grid[0]]
    if whole.shape == x_shape:
        return whole
    starts = (0, 0, *(low for low, _ in padding))
    return ops.slice(whole, starts, x_shape, (1,) * len(x_shape))
