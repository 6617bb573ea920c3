"""Where elements lie: strides, places, windows. Cached, for training repeats its shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from operator import itemgetter
from typing import Any

Shape = tuple[int, ...]
Getter = Callable[[Sequence[Any]], Sequence[Any]]


def strides(shape: Shape) -> Shape:
    """Of an array in C order, in elements."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def broadcast_strides(shape: Shape, target: Shape) -> Shape:
    own = (0 if n == 1 else step for n, step in zip(shape, strides(shape)))
    return (0,) * (len(target) - len(shape)) + tuple(own)


def broadcast_shapes(*shapes: Shape) -> Shape:
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*aligned))


@lru_cache(512)
def places(shape: Shape, steps: Shape, start: int = 0) -> list[int]:
    """Positions of the elements of a strided view, in C order."""
    found = [start]
    for size, step in zip(shape, steps):
        found = [p + i * step for p in found for i in range(size)]
    return found


def picker(positions: Sequence[int]) -> Getter:
    """Takes the elements at `positions` out of a sequence."""
    return itemgetter(*positions) if len(positions) > 1 else lambda x: [x[p] for p in positions]


@lru_cache(512)
def view(shape: Shape, steps: Shape, start: int = 0) -> Getter:
    return picker(places(shape, steps, start))


@lru_cache(64)
def windows(
    size: Shape, channels: int, out: Shape, kernel: Shape,
    stride: Shape, low: Shape, dilation: Shape, kernel_dilation: Shape,
) -> list[Getter]:  # fmt: skip
    """Per output place, what the kernel sees of (channels, *size) and one zero after it: position
    -1 is for what lies in the padding or between dilated elements."""

    def on_axis(axis: int, at: int, k: int) -> int | None:
        position = at * stride[axis] + k * kernel_dilation[axis] - low[axis]
        inside = 0 <= position < size[axis] * dilation[axis] and position % dilation[axis] == 0
        return position // dilation[axis] * prod(size[axis + 1 :]) if inside else None

    def window(place: Shape) -> Getter:
        axes = [[on_axis(a, at, k) for k in range(kernel[a])] for a, at in enumerate(place)]
        one = [None if None in at else sum(at) for at in product(*axes)]  # type: ignore[arg-type]
        area = prod(size)
        return picker([-1 if p is None else c * area + p for c in range(channels) for p in one])

    return [window(place) for place in product(*map(range, out))]


def along(items: list[Any], shape: Shape, axis: int, size: int, function: Getter) -> list[Any]:
    """`function` on every lane of an axis; it gives `size` elements for each."""
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    result: list[Any] = [0] * (outer * size * inner)
    for o, i in product(range(outer), range(inner)):
        lane = items[o * n * inner + i : (o + 1) * n * inner : inner]
        result[o * size * inner + i : (o + 1) * size * inner : inner] = function(lane)
    return result
