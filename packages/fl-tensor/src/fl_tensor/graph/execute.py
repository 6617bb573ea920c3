"""Execution of a graph, node by node, in any namespace of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor.arrays.tensor import Tensor
from fl_tensor.device import Device
from fl_tensor.dispatch import calls, frontend, registry
from fl_tensor.dispatch.stack import ops_for
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.ir import Graph, Node, Ref, Value

#: So many fixed numbers are named in a message.
_NAMED = 8


def run(graph: Graph, ops: Any, inputs: Sequence[Any], constants: bool = False) -> list[Any]:
    """The outputs, as values of ``ops``: adapters of a backend, variables of a tape, shapes of
    ``null``. A value is let go after its last use. Where ``ops`` has no such device as the graph
    names, its first one is used.

    Raises ArgumentError, naming all of them, for inputs of another number, shape or dtype; and,
    unless ``constants``, for a graph with fixed numbers.
    """
    if graph.fixed and not constants:
        raise _is_one_step(graph)
    _fit(graph, inputs)
    devices = ops.devices()

    def place(device: Device) -> Device:
        return device if device in devices else devices[0]

    found: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for value, data in graph.constants:
        found[value] = ops.from_host(
            memoryview(data), value.shape, value.dtype, place(value.device)
        )
    last = _last_uses(graph)
    for i, node in enumerate(graph.nodes):
        arguments = [
            place(a) if isinstance(a, Device) else a for a in _arguments(node, found.__getitem__)
        ]
        result = getattr(ops, node.op)(*arguments)
        results = result if isinstance(result, (tuple, list)) else (result,)
        found.update(zip(node.outputs, results, strict=True))
        del arguments, result, results
        for value in last.get(i, ()):
            del found[value]
    return [found[value] for value in graph.outputs]


def call(graph: Graph, inputs: Sequence[Any], constants: bool = False) -> list[Any]:
    """As ``run``, for Tensors and Variables (``Graph.__call__``)."""
    if not inputs:
        backend = registry.current_backend()
        return [Tensor(x, backend) for x in run(graph, ops_for(backend), [], constants)]
    arrays = frontend.operands_of("graph", "A" * len(inputs), *inputs)
    results = run(graph, arrays[0]._ops(), [x._raw for x in arrays], constants)
    return [arrays[0]._wrap(x) for x in results]


def _arguments(node: Node, value: Any) -> list[Any]:
    # In the order of the contract's signature; donate, which is not recorded, comes last there.
    refs = iter(node.inputs)
    return [
        _resolve(next(refs), value) if p.role else node.parameters[p.name]
        for p in calls.parameters(node.op)
        if p.name != "donate"
    ]


def _resolve(ref: Ref, value: Any) -> Any:
    if isinstance(ref, Value):
        return value(ref)
    return None if ref is None else [value(v) for v in ref]


def _last_uses(graph: Graph) -> dict[int, list[Value]]:
    # Node number -> values that nobody needs after it (outputs are needed to the end).
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        last.update(dict.fromkeys([*node.operands, *node.outputs], i))
    for value in graph.outputs:
        last.pop(value, None)
    by_node: dict[int, list[Value]] = {}
    for value, i in last.items():
        by_node.setdefault(i, []).append(value)
    return by_node


def _is_one_step(graph: Graph) -> ArgumentError:
    numbers = list(dict.fromkeys(map(str, graph.fixed)))
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return ArgumentError(
        f"[graph] it was recorded with numbers that change from step to step: "
        f"{'; '.join(numbers[:_NAMED])}{more}. Run again it is the same step, not the next one: "
        f"pass constants=True if these numbers are right"
    )


def _fit(graph: Graph, inputs: Sequence[Any]) -> None:
    if len(inputs) != len(graph.inputs):
        wanted = ", ".join(f"{v}: {v.type}" for v in graph.inputs)
        raise ArgumentError(
            f"[graph] {len(inputs)} inputs given, the graph has {len(graph.inputs)}: {wanted}"
        )
    bad = [
        f"{v} is {x.dtype}{tuple(x.shape)}, the graph was recorded for {v.type}"
        for v, x in zip(graph.inputs, inputs, strict=True)
        if (tuple(x.shape), x.dtype) != (v.shape, v.dtype)
    ]
    if bad:
        raise ArgumentError(f"[graph] {'; '.join(bad)}")
