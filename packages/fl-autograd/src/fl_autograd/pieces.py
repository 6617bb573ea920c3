"""Gradients of slices, collected and written into one array at the end.

``split``, ``unstack`` and ``x[i]`` are slices, and the gradient of a slice is zero outside of it.
Padding each one to the whole array and adding them would take quadratic time in the number of
slices. The engine collects them, and writes them into one array.
"""

from __future__ import annotations

import math
from typing import Any

Shape = tuple[int, ...]


class Pieces:
    """The gradient of an array of ``shape``: at every place the sum of the parts that lie there,
    each ``(starts, steps, g)`` as ``slice`` reads it, and of ``rest``, a gradient of all of it."""

    __slots__ = ("parts", "rest", "shape", "size")

    def __init__(self, shape: Shape, starts: Shape, steps: Shape, g: Any) -> None:
        self.shape = shape
        self.parts = [(starts, steps, g)]
        self.size = math.prod(g.shape)  # of all parts together
        self.rest: Any = None

    def plus(self, other: Any, ops: Any) -> Pieces:
        """With another gradient added: one of the whole array, or a part as a rule gave it."""
        if other.__class__ is not Pieces:
            self.rest = other if self.rest is None else ops.add(self.rest, other)
            return self
        self.parts += other.parts
        self.size += other.size
        # Parts that overlap must not take more memory than the whole.
        if self.size > math.prod(self.shape) and len(self.parts) > 1:
            self.rest = self.whole(ops)
        return self

    def whole(self, ops: Any) -> Any:
        """The gradient as one array. What this holds is given up."""
        total, parts = self.rest, self.parts
        self.rest, self.parts, self.size = None, [], 0
        if total is None:
            if len(parts) == 1:
                return _padded(ops, self.shape, *parts[0])
            if (axis := self._joins(parts)) is not None:
                parts.sort(key=lambda part: part[0][axis])
                return ops.concatenate([g for _, _, g in parts], axis)
            total = ops.full(self.shape, 0, parts[0][2].dtype, parts[0][2].device)
        for starts, steps, g in parts:
            g = ops.add(ops.slice(total, starts, g.shape, steps), g)
            total = ops.slice_update(total, starts, steps, g, donate=True)
        return total

    def _joins(self, parts: list[Any]) -> int | None:
        # The axis along which the parts lie side by side and are the whole, as those of ``split``.
        first = parts[0][2].shape
        axes = [i for i, (n, m) in enumerate(zip(self.shape, first)) if n != m]
        if len(axes) != 1:
            return None
        (axis,) = axes
        places = []
        for starts, steps, g in parts:
            size = g.shape[axis]
            if steps[axis] != 1 or any(
                start or step != 1 or n != m
                for i, (start, step, n, m) in enumerate(zip(starts, steps, self.shape, g.shape))
                if i != axis
            ):
                return None
            places.append((starts[axis], size))
        end = 0
        for start, size in sorted(places):
            if start != end:
                return None
            end += size
        return axis if end == self.shape[axis] else None


def _padded(ops: Any, shape: Shape, starts: Shape, steps: Shape, g: Any) -> Any:
    # Elements go back where they came from, zeros between and around them.
    backwards = tuple(i for i, step in enumerate(steps) if step < 0)
    if backwards:
        g = ops.flip(g, backwards)
    low, high, interior = [], [], []
    for n, size, start, step in zip(shape, g.shape, starts, steps):
        reach = (size - 1) * abs(step)
        first = start - reach if step < 0 else start
        low.append(first)
        high.append(n - first - reach - 1)
        interior.append(abs(step) - 1 if size > 1 else 0)
    return ops.pad(g, tuple(low), tuple(high), tuple(interior), 0)
