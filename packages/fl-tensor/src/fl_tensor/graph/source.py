"""A graph as one function of Python over the methods of a backend.

``execute.run`` finds the arguments of each operation at each call. Here this happens once, and what
is left is a line per operation:

    def run(inputs, numbers):
        i0, i1 = inputs
        n0, = numbers
        v2 = matmul(i0, i1)
        v3 = multiply(v2, scalar((n0 * 0.5), float32, cpu))
        del v2
        return v3,

Results are equal to those of ``Graph.run`` bit for bit. Values that depend on no input are computed
once.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from typing import Any

from fl_tensor.device import Device
from fl_tensor.dispatch import calls
from fl_tensor.dispatch.stack import CONTROL
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.host_numbers import NAMES, HostExpression
from fl_tensor.graph.ir import Graph, Node, Ref, Value

__all__ = ["compiled_source"]

#: Operations whose results are numbers and arrays that depend on their parameters alone.
_GENERATORS = frozenset(("full", "arange", "random_bits"))


def compiled_source(graph: Graph, ops: Any, names: Sequence[str] = ()) -> Callable[..., Any]:
    """A function of a list of adapters of ``ops``, one for each input, and of the host numbers
    ``names``, that returns a tuple of adapters. Its source is its attribute ``source``. Where
    ``ops`` has no such device as the graph names, its first one is used."""
    if bad := [name for name in names if not name.isidentifier() or keyword.iskeyword(name)]:
        raise ArgumentError(f"[compile] {bad[0]!r} is no name of a number")
    writer = _Writer(graph, ops)
    lines = [line for i, node in enumerate(graph.nodes) for line in writer.lines(i, node)]
    given = "".join(f"{writer.name[value]}, " for value in graph.inputs)
    numbers = "".join(f"{name}, " for name in names)
    head = [f"({given}) = inputs", f"({numbers}) = numbers"]
    results = "".join(f"{writer.name[value]}, " for value in graph.outputs)
    body = "\n    ".join([*head, *lines, f"return ({results})"])
    source = f"def run(inputs, numbers):\n    {body}\n"
    exec(compile(source, "<graph>", "exec"), writer.scope)
    run: Any = writer.scope["run"]
    run.source = source
    return run


class _Writer:
    """Names of values, and what the source refers to."""

    def __init__(self, graph: Graph, ops: Any) -> None:
        self.ops, self.devices = ops, ops.devices()
        self.scope: dict[str, Any] = dict(NAMES)
        self.name = {value: f"i{i}" for i, value in enumerate(graph.inputs)}
        self.once: dict[Value, Any] = {}
        for value, data in graph.constants:
            made = ops.from_host(
                memoryview(data), value.shape, value.dtype, self.place(value.device)
            )
            self.keep(value, made)
        self.last = {
            value: i
            for i, node in enumerate(graph.nodes)
            for value in (*node.operands, *node.outputs)
        }
        for value in graph.outputs:
            self.last.pop(value, None)

    def place(self, device: Device) -> Device:
        return device if device in self.devices else self.devices[0]

    def keep(self, value: Value, made: Any) -> None:
        self.name[value] = name = f"c{value.id}"
        self.scope[name] = self.once[value] = made

    def lines(self, number: int, node: Node) -> list[str]:
        parameters = [p for p in calls.parameters(node.op) if p.name != "donate"]
        settings = [node.parameters[p.name] for p in parameters if not p.role]
        operation = getattr(self.ops, node.op)
        if node.op == "full" and node.parameters["shape"] == ():
            return self.scalar(number, node)
        if all(v in self.once for v in node.operands) and not any(map(_varies, settings)):
            if node.op in _GENERATORS or not node.operands:
                self.compute(node, operation, parameters)
                return []
        self.scope.setdefault(node.op, operation)
        references = iter(node.inputs)
        arguments = []
        for p in parameters:
            if p.role:
                arguments.append(self.reference(next(references)))
            else:
                arguments.append(self.setting(f"p{number}_{p.name}", node.parameters[p.name]))
        for value in node.outputs:
            self.name[value] = f"v{value.id}"
        targets = ", ".join(self.name[value] for value in node.outputs)
        if node.op in CONTROL:  # always a tuple
            targets = f"({targets}{',' * (len(node.outputs) == 1)})"
        written = [f"{targets} = {node.op}({', '.join(arguments)})"]
        dead = [
            self.name[value]
            for value in dict.fromkeys((*node.operands, *node.outputs))
            if self.last.get(value) == number and value not in self.once
        ]
        if dead:
            written.append(f"del {', '.join(dead)}")
        return written

    def scalar(self, number: int, node: Node) -> list[str]:
        (value,) = node.outputs
        setting, device = node.parameters["value"], self.place(value.device)
        if not _varies(setting):
            self.keep(value, self.ops.scalar(setting, value.dtype, device))
            return []
        self.scope.setdefault("scalar", self.ops.scalar)
        self.name[value] = f"v{value.id}"
        kind, where = f"t{number}", f"d{number}"
        self.scope[kind], self.scope[where] = value.dtype, device
        return [f"v{value.id} = scalar({setting}, {kind}, {where})"]

    def compute(self, node: Node, operation: Any, parameters: list[calls.Parameter]) -> None:
        references = iter(node.inputs)
        arguments = [
            self.value(next(references)) if p.role else self.placed(node.parameters[p.name])
            for p in parameters
        ]
        result = operation(*arguments)
        results = result if isinstance(result, (tuple, list)) else (result,)
        for value, made in zip(node.outputs, results, strict=True):
            self.keep(value, made)

    def value(self, ref: Ref) -> Any:
        if isinstance(ref, Value):
            return self.once[ref]
        return None if ref is None else [self.once[value] for value in ref]

    def reference(self, ref: Ref) -> str:
        if isinstance(ref, Value):
            return self.name[ref]
        return "None" if ref is None else f"[{', '.join(self.name[value] for value in ref)}]"

    def placed(self, setting: Any) -> Any:
        return self.place(setting) if isinstance(setting, Device) else setting

    def setting(self, name: str, setting: Any) -> str:
        if isinstance(setting, HostExpression):
            return setting.source
        if type(setting) is tuple and any(map(_varies, setting)):
            inner = [self.setting(f"{name}_{i}", part) for i, part in enumerate(setting)]
            return f"({''.join(f'{part}, ' for part in inner)})"
        self.scope[name] = self.placed(setting)
        return name


def _varies(setting: Any) -> bool:
    if type(setting) is tuple and not isinstance(setting, HostExpression):
        return any(map(_varies, setting))
    return isinstance(setting, HostExpression)
