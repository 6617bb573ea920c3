"""A recorded graph as Graphviz text: ``dot -Tsvg``, or any viewer of the format."""

from __future__ import annotations

from collections.abc import Mapping

from fl_autograd.node import Leaf, Node
from fl_autograd.variable import Variable
from fl_tensor.arguments import several_of
from fl_tensor.graph.dot import HEADER, quoted


def to_dot(*results: Variable, names: Mapping[str, Variable] | None = None) -> str:
    """What was recorded on the way to ``results``: operations are boxes, leaves and results
    ellipses; an edge carries the shape of the value that it stands for.

    names  names of variables to be shown, leaves (``dict(model.named_parameters())``) or results

    >>> print(to_dot(loss, names={"w": w, "loss": loss}))
    """
    several_of("to_dot", results, "results", Variable, "Variables")
    given = {v._node: name for name, v in (names or {}).items() if v._node is not None}
    roots = [y._node for y in results if y._node is not None]
    numbers: dict[Node, int] = {}
    stack = roots[::-1]
    while stack:
        node = stack.pop()
        if node not in numbers:
            numbers[node] = len(numbers)
            stack += [n for n in node.ins or () if n is not None]
    lines = list(HEADER)
    for node, i in numbers.items():
        name, shape = given.get(node, ""), f"{node.shape}"
        if isinstance(node, Leaf):
            label = f"{name or 'leaf'}\n{node.dtype}{shape}"
            lines.append(f"    n{i} [shape=ellipse, label={quoted(label)}]")
        else:
            label = "\n".join(filter(None, [node.name, name, "" if node.ins else "(freed)"]))
            lines.append(f"    n{i} [label={quoted(label)}]")
        for source in node.ins or ():
            if source is not None:
                shown = quoted(f"{source.shape}")
                lines.append(f"    n{numbers[source]} -> n{i} [label={shown}]")
    for i, root in enumerate(roots):
        lines.append(f"    r{i} [shape=ellipse, label={quoted(given.get(root, f'result {i}'))}]")
        lines.append(f"    n{numbers[root]} -> r{i} [label={quoted(f'{root.shape}')}]")
    return "\n".join([*lines, "}", ""])
