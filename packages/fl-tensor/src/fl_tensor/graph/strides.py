"""Where the elements of a value lie: changes of shape that move no data, as arithmetic on strides.

A ``Layout`` says that a value shows elements of a *root*, a value with storage of its own: element
(i, j, ...) is the one at ``offset + i * strides[0] + j * strides[1] + ...`` of the root's storage,
counted in elements. ``layouts`` finds it for every value of a graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fl_tensor.graph.ir import Graph, Node, Value

__all__ = [
    "VIEWS",
    "Shape",
    "StridedLayout",
    "broadcast",
    "contiguous",
    "layouts",
    "reshape",
    "view",
]

Shape = tuple[int, ...]

#: Operations whose result may show their operand's elements.
VIEWS = frozenset(("reshape", "permute", "broadcast_to", "slice"))


class StridedLayout(NamedTuple):
    """See above."""

    root: Value
    offset: int
    strides: Shape


def contiguous(shape: Sequence[int]) -> Shape:
    """The strides of C order."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def broadcast(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """The strides with which a value of ``shape`` is read as one of ``target``."""
    lead = len(target) - len(shape)
    return (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))


def reshape(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """The strides of ``target`` over the same elements in the same order, or None where there are
    none: the elements would have to be moved."""
    if not math.prod(shape):
        return contiguous(target)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    made: list[int] = []
    i = 0
    j = 0
    sizes = [n for n in target if n != 1]
    while i < len(old) and j < len(sizes):
        # The smallest runs of axes, old and new, with as many elements.
        first, start = i, j
        have, want = old[i][0], sizes[j]
        while have != want:
            if have < want:
                i += 1
                have *= old[i][0]
            else:
                j += 1
                want *= sizes[j]
        for k in range(first, i):
            if old[k][1] != old[k + 1][1] * old[k + 1][0]:
                return None
        run = [old[i][1]]
        for k in range(j, start, -1):
            run.append(run[-1] * sizes[k])
        made += run[::-1]
        i, j = i + 1, j + 1
    found = iter(made)
    return tuple(0 if n == 1 else next(found) for n in target)


def view(node: Node, of: StridedLayout) -> StridedLayout | None:
    """The layout of a view's result, ``of`` being its operand's; None where it takes a copy."""
    (x,) = node.operands
    root, offset, strides = of
    given = node.parameters
    if node.op == "permute":
        return StridedLayout(root, offset, tuple(strides[a] for a in given["axes"]))
    if node.op == "broadcast_to":
        return StridedLayout(root, offset, broadcast(x.shape, strides, given["shape"]))
    if node.op == "slice":
        begin = sum(b * s for b, s in zip(given["starts"], strides, strict=True))
        steps = tuple(k * s for k, s in zip(given["steps"], strides, strict=True))
        return StridedLayout(root, offset + begin, steps)
    found = reshape(x.shape, strides, given["shape"])
    return None if found is None else StridedLayout(root, offset, found)


def layouts(graph: Graph, given: Mapping[Value, Shape] | None = None) -> dict[Value, StridedLayout]:
    """The layout of every value. Inputs and constants lie in C order unless ``given`` has other
    strides; results of operations that are no views are roots in C order, and so is what a
    ``reshape`` has to copy."""
    found: dict[Value, StridedLayout] = {}
    for value in [*graph.inputs, *(c.value for c in graph.constants)]:
        strides = (given or {}).get(value) or contiguous(value.shape)
        found[value] = StridedLayout(value, 0, strides)
    for node in graph.nodes:
        seen = view(node, found[node.operands[0]]) if node.op in VIEWS else None
        for value in node.outputs:
            found[value] = seen or StridedLayout(value, 0, contiguous(value.shape))
    return found
