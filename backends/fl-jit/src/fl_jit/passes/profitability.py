"""Which rewrites pay: measured limits for prepacked weights and for work fused into a product."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from fl_tensor.graph import Node, Value, cost
from fl_tensor.graph.strides import StridedLayout

#: Memory traffic of an epilogue beside the product, as a part of the product's size.
MAX_EPILOGUE_TRAFFIC = 1 / 2

#: Runs with the same weight after which it is prepacked. Packing it in a step of its own, and
#: unpacking it for other readers, takes as long as a product saves in 4 runs (512 rows) to 12
#: (8 rows). Until this run about as much was lost as it costs.
RUNS_UNTIL_PREPACKED = 8

#: Output positions up to which the weights of a convolution are prepacked. The more there are, the
#: less of its time is packing. The time falls to 0.6 to 0.7 at 49 positions, 0.9 at 196, and 0.95
#: at 392, on 1 thread.
MAX_PREPACKING_POSITIONS = 512


def prepacking_pays(node: Node) -> bool:
    """Whether a product or a convolution is faster if its weights have been packed."""
    (out,) = node.outputs
    features = node.operands[1].shape[0]
    return node.op == "matmul" or math.prod(out.shape) <= MAX_PREPACKING_POSITIONS * features


def epilogue_pays(
    product: Node,
    nodes: Iterable[Node],
    stores_product: bool,
    layouts: Mapping[Value, StridedLayout],
    written: Collection[Value],
) -> bool:
    """Whether ``nodes``, elementwise work on a product, are faster as its epilogue.

    ``written`` are their results that others read. An epilogue saves reading the product, and
    writing it unless ``stores_product``. Its other memory traffic comes in short pieces between
    products, and is slower than in one loop. Measured: a bias wins 0 to 2 %, one more array breaks
    even, and an update of weights loses 3 %.
    """
    own = cost.size(product.outputs[0])
    saved = own if stores_product else 2 * own
    return cost.of_group(nodes, layouts, written).bytes - saved <= MAX_EPILOGUE_TRAFFIC * own
