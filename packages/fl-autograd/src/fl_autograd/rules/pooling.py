"""Rules of the pooling operations.

Both send to each place of a window an array of the output's shape; ``_fold`` adds these up.
Elements ``stride`` apart form a phase of the input, and places of the window that differ by a
multiple of the stride meet in one phase: sums are made per phase at the output's resolution, and
the phases are interleaved once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from fl_autograd.rules.table import rule

Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


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


def _max_pool(
    ops: Any, g: Any, out: Any, x: Any, window: Shape, stride: Shape, padding: Padding
) -> Any:
    # To the first maximum of each window in C order; the composition would share it among ties.
    if 0 in x.shape or 0 in g.shape:
        return ops.full(x.shape, 0, g.dtype, g.device)
    shape = x.shape
    if any(low or high for low, high in padding):
        low, high = ((0, 0, *(pair[i] for pair in padding)) for i in (0, 1))
        x = ops.pad(x, low, high, (0,) * len(low), float("-inf"))
    zero, steps = ops.constant(0.0, g), (1, 1, *stride)
    places: list[Any] = []
    free = None
    for offset in itertools.product(*map(range, window)):
        hit = ops.equal(ops.slice(x, (0, 0, *offset), g.shape, steps), out)
        first = hit if free is None else ops.bitwise_and(hit, free)
        missed = ops.bitwise_invert(hit)
        free = missed if free is None else ops.bitwise_and(free, missed)
        places.append(ops.where(first, g, zero))
    return _fold(ops, places, shape, window, stride, padding)


def _avg_pool(
    ops: Any,
    g: Any,
    x_shape: Shape,
    window: Shape,
    stride: Shape,
    padding: Padding,
    count_include_pad: bool,
) -> Any:
    if 0 in x_shape or 0 in g.shape:
        return ops.full(x_shape, 0, g.dtype, g.device)
    # The same weights as forward: the mean of ones is 1 / window, or 1 / what lies inside.
    count = 1
    for size in window:
        count *= size
    share = ops.divide(g, ops.constant(float(count), g))
    if not count_include_pad and any(low or high for low, high in padding):
        ones = ops.full((1, 1, *x_shape[2:]), 1.0, g.dtype, g.device)
        share = ops.divide(share, ops.avg_pool(ones, window, stride, padding, True))
    return _fold(ops, [share] * count, x_shape, window, stride, padding)


rule("max_pool", x=_max_pool)
rule("avg_pool", x=_avg_pool)
