"""Partial execution: the part of a graph from values that are fed to values that are fetched."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.graph.verify import expressions_of

__all__ = ["extract"]


def extract(graph: Graph, feeds: Iterable[str | Value], fetches: Iterable[str | Value]) -> Graph:
    """``Graph.extract``."""
    inputs = _values(graph, feeds, "feeds")
    outputs = _values(graph, fetches, "fetches")
    if not outputs:
        raise ArgumentError("[extract] no fetches: give names of the values to compute")
    if twice := [v for v in inputs if inputs.count(v) > 1]:
        raise ArgumentError(f"[extract] {twice[0]} is fed twice")
    given = set(inputs)
    opened = graph.replace(
        inputs=inputs,
        constants=[each for each in graph.constants if each.value not in given],
        nodes=[_without(graph, node, given) for node in graph.nodes],
    )
    missing = [v for v in graph.inputs if v not in given]
    # With these as inputs every fetch is a value of the graph.
    part = opened.replace(inputs=[*inputs, *missing]).prune(outputs).replace(inputs=inputs)
    _check_fetches(part, set(missing), outputs)
    for node in part.nodes:
        for setting in node.parameters.values():
            if found := next(expressions_of(setting), None):
                raise ArgumentError(
                    f"[extract] {node.op} takes the number {found}, which changes from call to "
                    f"call: feed {node.outputs[0]}, or fetch values before it"
                )
    return part


def _values(graph: Graph, wanted: Iterable[str | Value], what: str) -> list[Value]:
    if isinstance(wanted, (str, Value)) or not isinstance(wanted, Iterable):
        raise DTypeError(f"[extract] {what} {wanted!r}: expected a list of names or Values")
    own = [*graph.inputs, *(each.value for each in graph.constants)]
    own += [value for node in graph.nodes for value in node.outputs]
    return [_value(own, each, what) for each in wanted]


def _value(own: list[Value], wanted: str | Value, what: str) -> Value:
    if isinstance(wanted, Value):
        if wanted not in own:
            raise ArgumentError(f"[extract] {what}: {wanted} is no value of this graph")
        return wanted
    if not isinstance(wanted, str):
        raise DTypeError(f"[extract] {what} hold {wanted!r}: expected names or Values")
    found = [value for value in own if value.name == wanted and wanted]
    if len(found) == 1:
        return found[0]
    names = sorted({value.name for value in own if value.name})
    near = difflib.get_close_matches(wanted, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"named are {', '.join(names[:20]) or 'none'}"
    problem = "several values have" if found else "no value has"
    raise ArgumentError(f"[extract] {what}: {problem} the name {wanted!r}; {hint}")


def _without(graph: Graph, node: Node, given: set[Value]) -> Node:
    """A node whose results are not those that are fed."""
    if not given.intersection(node.outputs):
        return node
    outputs = [graph.value(v.shape, v.dtype, v.device) if v in given else v for v in node.outputs]
    return Node(node.op, node.inputs, node.parameters, tuple(outputs))


def _check_fetches(part: Graph, missing: set[Value], outputs: list[Value]) -> None:
    needs: dict[Value, set[Value]] = {value: {value} for value in missing}
    for node in part.nodes:
        found = {each for value in node.operands for each in needs.get(value, ())}
        needs.update(dict.fromkeys(node.outputs, found))
    for value in outputs:
        if unfed := needs.get(value):
            listed = ", ".join(sorted(map(str, unfed))[:8])
            raise ArgumentError(
                f"[extract] fetch {value} needs {listed}, which nobody feeds: add to feeds, or "
                f"feed a value between"
            )
