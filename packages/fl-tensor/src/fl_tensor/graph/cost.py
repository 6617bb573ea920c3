"""The cost of a node: bytes read and written, and arithmetic.

One model for everybody: the order in which groups run (``schedule.py``), reports of where time goes
(``ft.jit.profile``), drawings. It knows nothing of caches: a value is read once and written once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fl_tensor.graph.ir import Node, Value
from fl_tensor.graph.strides import VIEWS, Shape, StridedLayout


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


#: What else attached work may move, as a part of its product's size.
BESIDE = 1 / 2


#: At which run with the same weight it is packed for good. To pack it in a step of its own, and to
#: get it back if somebody asks for it, takes as long as a product saves in 4 runs (512 rows) to 12
#: (8 rows): until this run about as much was lost as it costs.
RUNS_UNTIL_KEPT = 8


#: Places of a result up to which the weights of a convolution are worth it: the more there are, the
#: less of its time is packing (1 thread: 0.6 to 0.7 of the time at 49, 0.9 at 196, 0.95 at 392).
KEPT_PLACES = 512


def pays_kept(node: Node) -> bool:
    """Whether a product or a convolution is faster if its weights have been packed."""
    (out,) = node.outputs
    return node.op == "matmul" or math.prod(out.shape) <= KEPT_PLACES * node.operands[1].shape[0]


def pays_attached(
    product: Node,
    nodes: Iterable[Node],
    kept: bool,
    layouts: Mapping[Value, StridedLayout],
    written: Collection[Value],
) -> bool:
    """Whether ``nodes``, elementwise work on a product, are better done while blocks of that are in
    cache; ``written`` are their results that others read. The product is not read then, nor
    written, unless it is ``kept``. But what else they move comes in short pieces, between products,
    and slower than in one go: measured, a bias wins 0 to 2 %, one more array breaks even, an update
    of weights loses 3 %."""
    own = size(product.outputs[0])
    beside = of_group(nodes, layouts, written).bytes - own * (1 if kept else 2)
    return beside <= BESIDE * own


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
