"""Reductions: over which axes a loop over rows can do them, and how others become such."""

from __future__ import annotations

from fl_tensor.graph.ir import Graph, Node, Value

REDUCTIONS = frozenset(("sum", "prod", "max", "min"))


def reduction_form(node: Node, row_axes: int) -> str | None:
    """What a reduction gives in a group whose rows have ``row_axes`` axes (0: any): ``"row"``,
    ``"column"``, ``"all"``; None where its axes fit no rows."""
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


def without_kept_axes(graph: Graph) -> Graph:
    """``graph`` with ``keepdims`` as a change of shape afterwards, so that what differs in nothing
    else is a common subexpression."""
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
    return Graph(graph.inputs, graph.constants, nodes, graph.outputs, graph.reads)


def split(graph: Graph) -> Graph:
    """``graph`` with every reduction over the last axes or over the first. What is neither is
    reduced over those of its axes that are last, then over the rest; an axis in the middle is moved
    to the end before. Results in float16 and bfloat16 would be rounded between: those stay."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op in REDUCTIONS and node.outputs[0].dtype.itemsize > 2:
            nodes += _steps(node, graph)
        else:
            nodes.append(node)
    return Graph(graph.inputs, graph.constants, nodes, graph.outputs, graph.reads)


def _steps(node: Node, graph: Graph) -> list[Node]:
    (x,) = node.operands
    (out,) = node.outputs
    rank = len(x.shape)
    axes = sorted(a for a in node.parameters["axis"] if x.shape[a] != 1)
    last = _run_at_end(axes, rank)
    if len(last) == len(axes) or axes == list(range(len(axes))) or not axes:
        return [node]

    def value(shape: tuple[int, ...], like: Value) -> Value:
        return graph.value(shape, like.dtype, out.device)

    steps: list[Node] = []
    rest = [a for a in axes if a not in last]
    if last:
        kept = value(tuple(1 if i in last else n for i, n in enumerate(x.shape)), out)
        steps.append(Node(node.op, (x,), {"axis": tuple(last), "keepdims": True}, (kept,)))
        x = kept
    if rest != list(range(len(rest))):
        order = [a for a in range(rank) if a not in rest] + rest
        moved = value(tuple(x.shape[a] for a in order), x)
        steps.append(Node("permute", (x,), {"axes": tuple(order)}, (moved,)))
        x, rest = moved, list(range(rank - len(rest), rank))
    shape = tuple(n for i, n in enumerate(x.shape) if i not in rest)
    done = value(shape, out)
    steps.append(Node(node.op, (x,), {"axis": tuple(rest), "keepdims": False}, (done,)))
    steps.append(Node("reshape", (done,), {"shape": out.shape}, (out,)))
    return steps


def _run_at_end(axes: list[int], rank: int) -> list[int]:
    found: list[int] = []
    for axis in range(rank - 1, -1, -1):
        if axis not in axes:
            break
        found.insert(0, axis)
    return found
