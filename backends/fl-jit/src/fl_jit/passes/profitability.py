"""Which rewrites pay: measured limits for prepacked weights and for work fused into a product."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from fl_tensor.graph import Node, Value, cost
from fl_tensor.graph.strides import StridedLayout

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
    own = cost.size(product.outputs[0])
    beside = cost.of_group(nodes, layouts, written).bytes - own * (1 if kept else 2)
    return beside <= BESIDE * own
