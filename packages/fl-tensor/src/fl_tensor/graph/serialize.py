"""Serialisation of graphs as JSON, with validation of untrusted input."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from typing import Any

from fl_tensor import dtypes
from fl_tensor.device import Device
from fl_tensor.dispatch import calls
from fl_tensor.dispatch.stack import CONTROL, operation_names
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, FlError
from fl_tensor.graph import control
from fl_tensor.graph.host_numbers import HostExpression
from fl_tensor.graph.ir import Constant, Fixed, Graph, Node, Ref, Value

FORMAT = "fl-graph"
VERSION = 1
#: A body may hold bodies, so deep.
DEPTH = 16


def to_json(graph: Graph) -> str:
    """``Graph.to_json``."""
    return json.dumps(to_dict(graph), allow_nan=False)


def to_dict(
    graph: Graph,
    constant: Callable[[Constant], dict[str, Any]] | None = None,
    depth: int = 0,
) -> Any:
    """What ``to_json`` writes. ``constant`` says where the bytes of a constant are, by default in
    base64 beside it. ``depth`` of a body."""
    if depth > DEPTH:
        raise ArgumentError(f"[graph] bodies hold bodies {depth} deep: expected at most {DEPTH}")
    where = constant or _beside
    constants = [{**_value(each.value), **where(each)} for each in graph.constants]
    nodes = [
        {
            "op": node.op,
            "inputs": [_reference(ref) for ref in node.inputs],
            "parameters": {
                name: {"graph": to_dict(v, depth=depth + 1)} if isinstance(v, Graph) else _encode(v)
                for name, v in node.parameters.items()
            },
            "outputs": [_value(v) for v in node.outputs],
        }
        for node in graph.nodes
    ]
    return {
        "format": FORMAT,
        "version": VERSION,
        "inputs": [_value(v) for v in graph.inputs],
        "constants": constants,
        "nodes": nodes,
        "outputs": [v.id for v in graph.outputs],
        "reads": [v.id for v in graph.reads],
        "fixed": [[f.name, _encode(f.value)] for f in graph.fixed],
    }


def _beside(constant: Constant) -> dict[str, Any]:
    return {"data": base64.b64encode(constant.data).decode()}


def from_json(text: str) -> Graph:
    """``Graph.from_json``."""
    try:
        return _Reader().graph(json.loads(text))
    except FlError as error:
        raise ArgumentError(f"[graph] {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"[graph] no sound graph: {type(error).__name__} {error}") from None


def _value(v: Value) -> dict[str, Any]:
    made = {"id": v.id, "shape": list(v.shape), "dtype": v.dtype.name, "device": str(v.device)}
    return {**made, "name": v.name} if v.name else made


def _reference(ref: Ref) -> Any:
    if isinstance(ref, Value):
        return ref.id
    return None if ref is None else [v.id for v in ref]


def _encode(value: Any) -> Any:
    if isinstance(value, HostExpression):
        return {"expression": value.source}
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, Device):
        return {"device": str(value)}
    if isinstance(value, (tuple, list)):
        return [_encode(v) for v in value]
    if isinstance(value, complex):
        return {"complex": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ArgumentError(f"[graph] a parameter is a {type(value).__name__}, which JSON cannot hold")


def _expression(source: Any) -> HostExpression:
    from fl_tensor.graph import expressions

    names = expressions.names_in(str(source))
    return HostExpression(expressions.check(source, names, names))


_DECODERS: dict[str, Callable[[str], Any]] = {
    "dtype": dtypes.dtype,
    "device": Device.parse,
    "complex": complex,
    "float": float,
    "expression": _expression,
}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(v) for v in value)
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return _DECODERS[kind](text)
    return value


class _Reader:
    """The values read so far, by number; ``depth`` of a body."""

    def __init__(self, depth: int = 0) -> None:
        self.values: dict[int, Value] = {}
        self.depth = depth

    def graph(self, data: dict[str, Any]) -> Graph:
        if data.get("format") != FORMAT or data.get("version") != VERSION:
            raise ArgumentError(
                f"format {data.get('format')!r} version {data.get('version')!r}: expected "
                f"{FORMAT!r} version {VERSION}"
            )
        inputs = [self.define(v) for v in data["inputs"]]
        constants = [self.constant(c) for c in data["constants"]]
        nodes = [self.node(n) for n in data["nodes"]]
        outputs = [self.use(i) for i in data["outputs"]]
        reads = [self.use(i) for i in data["reads"]]
        # Files from before there were fixed numbers say nothing of them.
        fixed = [self.fixed(f) for f in data.get("fixed", [])]
        return Graph(inputs, constants, nodes, outputs, reads, fixed)

    def fixed(self, data: Any) -> Fixed:
        name, value = data
        value = _decode(value)
        if not isinstance(name, str) or type(value) not in (int, float):
            raise ArgumentError(f"fixed {data!r}: expected a name and a number")
        return Fixed(name, value)

    def define(self, data: dict[str, Any]) -> Value:
        number, shape, name = data["id"], tuple(data["shape"]), data.get("name", "")
        if not all(type(n) is int and n >= 0 for n in (number, *shape)):
            raise ArgumentError(f"value {number!r} of shape {shape!r}: expected ints from 0 on")
        if number in self.values:
            raise ArgumentError(f"value {number} is defined twice")
        if not isinstance(name, str):
            raise ArgumentError(f"value {number}: its name is a {type(name).__name__}")
        dtype, device = dtypes.ALL[data["dtype"]], Device.parse(data["device"])
        made = self.values[number] = Value(number, shape, dtype, device, name)
        return made

    def use(self, number: Any) -> Value:
        if type(number) is not int or number not in self.values:
            raise ArgumentError(f"value {number!r} is used and not defined before")
        return self.values[number]

    def constant(self, data: dict[str, Any]) -> Constant:
        value = self.define(data)
        content = self.content_of(value, data)
        if len(content) != math.prod(value.shape) * value.dtype.itemsize:
            raise ArgumentError(
                f"constant {value.id}: {len(content)} bytes do not fill {value.type}"
            )
        return Constant(value, content)

    def content_of(self, value: Value, data: dict[str, Any]) -> Any:
        """The bytes of a constant."""
        try:
            return base64.b64decode(data["data"], validate=True)
        except binascii.Error as error:
            raise ArgumentError(f"constant {value.id}: {error}") from None

    def node(self, data: dict[str, Any]) -> Node:
        name = data["op"]
        if name not in (operation_names() | CONTROL) - {"from_host", "to_host"}:
            raise ArgumentError(f"there is no operation {name!r} in this contract")
        signature = calls.parameters(name)
        inputs = tuple(
            None if r is None else tuple(map(self.use, r)) if isinstance(r, list) else self.use(r)
            for r in data["inputs"]
        )
        if len(inputs) != (arrays := sum(bool(p.role) for p in signature)):
            raise ArgumentError(f"{name} has {len(inputs)} inputs: expected {arrays}")
        parameters = {key: self.parameter(value) for key, value in data["parameters"].items()}
        wanted = {p.name for p in signature if not p.role and p.name != "donate"}
        if wrong := sorted(wanted.symmetric_difference(parameters)):
            raise ArgumentError(f"{name}: parameter {wrong[0]!r} is unknown or missing")
        outputs = tuple(self.define(v) for v in data["outputs"])
        if name in CONTROL:
            control.check_node(name, inputs, parameters, outputs)
        return Node(name, inputs, parameters, outputs)

    def parameter(self, value: Any) -> Any:
        if not isinstance(value, dict) or "graph" not in value:
            return _decode(value)
        if self.depth == DEPTH:
            raise ArgumentError(f"bodies hold bodies more than {DEPTH} deep")
        ((_, body),) = value.items()
        return _Reader(self.depth + 1).graph(body)
