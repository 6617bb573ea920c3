"""The cost of a node: bytes read and written, and arithmetic.

It knows nothing of caches: a value is read once and written once. ``ft.count``, the decisions of
compiling backends and their reports share this model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fl_tensor.graph.ir import Node, Value
from fl_tensor.graph.strides import VIEWS, Shape, StridedLayout

__all__ = ["CONTRACTIONS", "Cost", "contraction", "flops", "of_group", "size", "touched"]


class Cost(NamedTuple):
    """Bytes read, bytes written, and floating-point operations: two for each multiplication with
    addition of a contraction, one for each element of whatever else computes."""

    read: int = 0
    written: int = 0
    flops: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved: read and written."""
        return self.read + self.written


#: Operations that are sums of products of two operands.
CONTRACTIONS = frozenset(("matmul", "conv", "conv_data_gradient", "conv_weight_gradient"))
#: Operations that move data and compute nothing.
MOVES = VIEWS | {"concatenate", "pad", "gather"}


def size(value: Value) -> int:
    """The bytes of a value's elements."""
    return math.prod(value.shape) * value.dtype.itemsize


def contraction(op: str, shapes: Sequence[Shape], elements: int) -> int:
    """The operations of a contraction of operands of these shapes, ``elements`` of the result: ``2
    * k`` for each of matmul (..., m, k) by (..., k, n) and of linear, ``2 * channels / groups *
    kernel size`` of conv, zeros of padding and dilation included; a gradient of conv takes as many
    as that. 0 for every other operation."""
    if op in ("matmul", "linear"):
        return 2 * elements * shapes[0][-1]
    if op == "conv":
        return 2 * elements * math.prod(shapes[1][1:])
    if op == "conv_data_gradient":
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if op == "conv_weight_gradient":
        return 2 * elements * shapes[0][0] * math.prod(shapes[0][2:])
    return 0


def flops(node: Node) -> int:
    """The operations of a node, as ``Cost`` counts them."""
    if node.op in MOVES:
        return 0
    result = math.prod(node.outputs[0].shape)
    if found := contraction(node.op, [v.shape for v in node.operands], result):
        return found
    if node.op in ("max_pool", "avg_pool"):
        return result * math.prod(node.parameters["window"])
    return max(math.prod(v.shape) for v in (*node.operands, *node.outputs))


def of_group(
    nodes: Iterable[Node],
    layouts: Mapping[Value, StridedLayout] | None = None,
    written: Collection[Value] | None = None,
) -> Cost:
    """The cost of nodes that run together. What one makes for another is in no memory, unless it is
    ``written`` (default: what none of them reads). ``layouts`` says what views show (default: every
    value has a place of its own)."""
    nodes = list(nodes)
    places = {} if layouts is None else layouts

    def root(value: Value) -> Value:
        return places[value].root if value in places else value

    made = {v for node in nodes for v in node.outputs}
    read: dict[Value, dict[object, int]] = {}
    for node in nodes:
        for value in node.operands:
            if root(value) not in made:
                layout = places.get(value)
                found = min(touched(value, layout), _taken(node, value))
                read.setdefault(root(value), {})[layout or value] = found
    if written is None:
        written = made - {root(v) for node in nodes for v in node.operands}
    return Cost(
        # Overlapping pieces of one array are no more than the array.
        sum(min(size(r), sum(pieces.values())) for r, pieces in read.items()),
        sum(size(v) for v in made if v in written),
        sum(map(flops, nodes)),
    )


def touched(value: Value, layout: StridedLayout | None) -> int:
    """Bytes that are read of a value with this layout: what is broadcast is read once for all."""
    if layout is None:
        return size(value)
    moves = (n for n, s in zip(value.shape, layout.strides, strict=True) if s)
    return math.prod(moves) * value.dtype.itemsize


def _taken(node: Node, value: Value) -> int:
    # A gather reads of its table what it gives.
    if node.op == "gather" and value is node.inputs[0]:
        return size(node.outputs[0])
    return size(value)
