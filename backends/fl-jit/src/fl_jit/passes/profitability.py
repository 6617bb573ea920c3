"""Which rewrites pay: measured limits for prepacked weights and for work fused into a product."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from fl_tensor.graph import Node, Value, cost
from fl_tensor.graph.strides import StridedLayout

#: What else attached work may move, as a part of its product's size.
BESIDE = 1 / 2

#: Weights are prepacked at this run with the same weights. Packing, and unpacking if the array is
#: read, take as long as a GEMM saves in 4 runs (512 rows) to 12 runs (8 rows). By this run, packing
#: in each GEMM has cost about as much.
RUNS_UNTIL_KEPT = 8

#: Number of output pixels up to which prepacked weights of a convolution pay. With more pixels,
#: packing is a smaller part of the time. Time with prepacked weights, relative to that without (1
#: thread): 0.6 to 0.7 at 49 pixels, 0.9 at 196, 0.95 at 392.
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
