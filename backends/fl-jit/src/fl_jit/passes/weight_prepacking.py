"""Inputs whose packed form can be cached: those used only as weights of GEMMs or convolutions.

    y = matmul(x, permute(w, (1, 0)))        w is B, transposed

This applies to values that are the same in many runs, such as weights without training. They are
packed once (``profitability.RUNS_UNTIL_KEPT``), instead of in every GEMM.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fl_tensor.graph import Graph, Node, Value
from fl_tensor.graph.strides import VIEWS, StridedLayout


def prepackable_weights(
    graph: Graph,
    layouts: Mapping[Value, StridedLayout],
    results: Collection[Value],
    takes: Callable[[Node], bool],
) -> dict[Value, bool]:
    """The prepackable inputs, each with whether its transpose is used.

    All their readers are nodes for which ``takes(node)`` holds, as the second operand and in the
    same way. ``results`` are the roots that are read outside.
    """
    inputs = set(graph.inputs)
    found: dict[Value, bool] = {}
    spoiled = set(results)
    for node in graph.nodes:
        if node.op in VIEWS and layouts[node.outputs[0]].root is not node.outputs[0]:
            continue
        for place, value in enumerate(node.operands):
            root = layouts[value].root
            if root not in inputs:
                continue
            turned = _turned(value, layouts[value], layouts[root]) if place == 1 else None
            if turned is None or not takes(node) or found.setdefault(root, turned) is not turned:
                spoiled.add(root)
    return {root: turned for root, turned in found.items() if root not in spoiled}


def _turned(value: Value, shown: StridedLayout, whole: StridedLayout) -> bool | None:
    # Whether a value is the transpose of its root. None: neither that nor the root.
    shape = whole.root.shape
    if shown.offset or (len(shape) == 2 and 1 in shape):
        return None
    if (value.shape, shown.strides) == (shape, whole.strides):
        return False
    turns = (value.shape[::-1], shown.strides[::-1]) == (shape, whole.strides)
    return True if turns and len(shape) == 2 else None
