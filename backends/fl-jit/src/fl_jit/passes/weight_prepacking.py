"""Inputs whose packed form can be cached: those used only as weights of GEMMs or convolutions.

    y = matmul(x, permute(w, (1, 0)))        w is B, transposed

This applies to values that are the same in many runs, such as weights without training. They are
packed once (``profitability.RUNS_UNTIL_PREPACKED``), instead of in every GEMM.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fl_tensor.graph import Graph, Node, Value
from fl_tensor.graph.strides import VIEWS, StridedLayout


def prepackable_weights(
    graph: Graph,
    layouts: Mapping[Value, StridedLayout],
    results: Collection[Value],
    reads_packed: Callable[[Node], bool],
) -> dict[Value, bool]:
    """The prepackable inputs, each with whether its transpose is used.

    All their readers are nodes for which ``reads_packed(node)`` holds, as the second operand and in
    the same way. ``results`` are the roots that are read outside.
    """
    inputs = set(graph.inputs)
    weights: dict[Value, bool] = {}
    others = set(results)
    for node in graph.nodes:
        if node.op in VIEWS and layouts[node.outputs[0]].root is not node.outputs[0]:
            continue
        for place, value in enumerate(node.operands):
            root = layouts[value].root
            if root not in inputs:
                continue
            transposed = _is_transposed(value, layouts) if place == 1 else None
            if (
                transposed is None
                or not reads_packed(node)
                or weights.setdefault(root, transposed) is not transposed
            ):
                others.add(root)
    return {root: transposed for root, transposed in weights.items() if root not in others}


def _is_transposed(value: Value, layouts: Mapping[Value, StridedLayout]) -> bool | None:
    # Whether a value is the transpose of its root. None: neither that nor the root.
    root, offset, strides = layouts[value]
    shape, whole = root.shape, layouts[root].strides
    if offset or (len(shape) == 2 and 1 in shape):
        return None
    if (value.shape, strides) == (shape, whole):
        return False
    transposed = (value.shape[::-1], strides[::-1]) == (shape, whole)
    return True if transposed and len(shape) == 2 else None
