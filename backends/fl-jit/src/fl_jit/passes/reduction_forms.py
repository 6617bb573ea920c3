"""Forms of reductions: the axes that a loop over rows can reduce, and rewrites of other
reductions."""

from __future__ import annotations

from typing import Any

from fl_tensor.extend import Shape
from fl_tensor.graph import Graph, Node, Value

REDUCTIONS = frozenset(("sum", "prod", "max", "min"))


def reduction_form(node: Node, row_axes: int) -> str | None:
    """The form of a reduction in a group whose rows have ``row_axes`` axes (0: any): ``"row"``,
    ``"column"`` or ``"all"``. None if its axes fit no rows."""
    (x,) = node.operands
    axes = sorted(node.parameters["axis"])
    rank, count = len(x.shape), len(axes)
    if not axes:
        return None
    if count == rank:
        return "all"
    if axes == list(range(rank - count, rank)):
        return "row" if row_axes in (0, count) else None
    if axes == list(range(count)):
        return "column" if row_axes in (0, rank - count) else None
    return None


def without_keepdims(graph: Graph) -> Graph:
    """``graph`` with a reshape in place of ``keepdims``, for CSE of reductions that differ in
    nothing else."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op not in REDUCTIONS or not node.parameters["keepdims"]:
            nodes.append(node)
            continue
        (out,) = node.outputs
        axes = node.parameters["axis"]
        shape = tuple(n for i, n in enumerate(out.shape) if i not in axes)
        done = graph.value(shape, out.dtype, out.device)
        nodes.append(Node(node.op, node.inputs, {"axis": axes, "keepdims": False}, (done,)))
        nodes.append(Node("reshape", (done,), {"shape": out.shape}, (out,)))
    return graph.replace(nodes=nodes)


def split(graph: Graph) -> Graph:
    """``graph`` with every reduction over the last axes or over the first.

    Axes of one element are removed. Other reductions become two: over those of their axes that are
    last, and over the rest. An axis in the middle is moved to the end before. Reductions with
    results in float16 and bfloat16 stay, as they would be rounded in between.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op in REDUCTIONS and not _is_plain(node):
            nodes += _steps(node, graph)
        else:
            nodes.append(node)
    return graph.replace(nodes=nodes)


def _is_plain(node: Node) -> bool:
    # Whether no rewrite is needed, or possible.
    axes, (x,) = node.parameters["axis"], node.operands
    if node.outputs[0].dtype.itemsize <= 2 or reduction_form(node, 0) is not None:
        return True
    return all(x.shape[a] == 1 for a in axes)


def _steps(node: Node, graph: Graph) -> list[Node]:
    (x,), (out,) = node.operands, node.outputs
    steps: list[Node] = []

    def add(op: str, given: dict[str, Any], shape: Shape, like: Value = out) -> Value:
        made = graph.value(shape, like.dtype, out.device)
        steps.append(Node(op, (x,), given, (made,)))
        return made

    axes = sorted(a for a in node.parameters["axis"] if x.shape[a] != 1)
    if 1 in x.shape:
        left = [a for a, n in enumerate(x.shape) if n != 1]
        shape = tuple(x.shape[a] for a in left)
        x, axes = add("reshape", {"shape": shape}, shape, x), [left.index(a) for a in axes]
    rank = len(x.shape)
    last = _run_at_end(axes, rank)
    if last and len(last) < len(axes):
        shape = tuple(n for i, n in enumerate(x.shape) if i not in last)
        x = add(node.op, {"axis": tuple(last), "keepdims": False}, shape)
        axes = [a for a in axes if a not in last]
        rank = len(shape)
    if axes not in (list(range(len(axes))), _run_at_end(axes, rank)):
        order = [a for a in range(rank) if a not in axes] + axes
        shape = tuple(x.shape[a] for a in order)
        x = add("permute", {"axes": tuple(order)}, shape, x)
        axes = list(range(rank - len(axes), rank))
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    x = add(node.op, {"axis": tuple(axes), "keepdims": False}, shape)
    steps.append(Node("reshape", (x,), {"shape": out.shape}, (out,)))
    return steps


def _run_at_end(axes: list[int], rank: int) -> list[int]:
    last: list[int] = []
    for axis in range(rank - 1, -1, -1):
        if axis not in axes:
            break
        last.insert(0, axis)
    return last
