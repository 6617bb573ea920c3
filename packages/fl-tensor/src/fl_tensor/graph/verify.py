"""Verification of a graph from outside, by the contract of its operations.

Each node runs on ``null`` under a layer that sees the parts of compositions, too. Nothing is
computed. Operands and parameters must be those of the contract, and results those of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from fl_tensor import rules
from fl_tensor.annotations import misfit
from fl_tensor.arguments import scalar
from fl_tensor.backend import TensorBackend
from fl_tensor.backends.null import NullAdapter
from fl_tensor.device import CPU
from fl_tensor.dispatch import calls, registry
from fl_tensor.dispatch.preconditions import Preconditions
from fl_tensor.dispatch.stack import Operation, ops_for, under
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.host_numbers import HostExpression
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.graph.text import node as shown

__all__ = ["Verifier", "expressions_of"]

#: The axes of a value, and its bytes.
RANK, BYTES = 64, 1 << 36
#: Bytes of arrays that are made of numbers alone, which a graph may keep.
MADE = 1 << 28
#: Operations of all compositions together.
CALLS = 500_000
#: Their compositions have something for each element of an axis, or for each number given.
_LISTING, _LISTED = frozenset(("recurrent", "repeat", "split", "unstack")), 1 << 20
#: Where an expression of host numbers may stand: elsewhere it would decide shapes and axes.
_RANDOM = frozenset(("random_bits", "uniform", "normal"))
_VARYING = frozenset(("seed", "offset"))


def expressions_of(setting: Any) -> Iterator[str]:
    """The expressions of host numbers in a parameter."""
    if isinstance(setting, HostExpression):
        yield setting.source
    elif isinstance(setting, Graph):
        for node in setting.nodes:
            for inner in node.parameters.values():
                yield from expressions_of(inner)
    elif isinstance(setting, tuple):
        for part in setting:
            yield from expressions_of(part)


class _Layer(Preconditions):
    """Also counts calls, and looks at parameters."""

    def __init__(self) -> None:
        self.left = CALLS

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ArgumentError(f"its compositions have more than {CALLS} operations")
        _check_settings(operation.name, arguments, options)
        result = super().call(operation, *arguments, **options)
        for x in calls.adapters((result,)):
            _check_size(operation.name, x)
        return result


class Verifier:
    """Checks the nodes of one graph, in their order."""

    def __init__(self) -> None:
        self.layer = _Layer()
        self.made = 0

    def value(self, value: Value) -> None:
        """Raises ArgumentError for a value that is larger than any."""
        _check_size(f"value {value.id}", value)

    def node(self, node: Node) -> None:
        """Raises an error of ours, or of Python's, for a node that is not sound."""
        for value in node.outputs:
            self.value(value)
        for setting in node.parameters.values():
            if isinstance(setting, Graph):  # a body
                for value in setting.inputs:
                    self.value(value)
                for inner in setting.nodes:
                    self.node(inner)
        if not node.operands:
            self.made += sum(math.prod(v.shape) * v.dtype.itemsize for v in node.outputs)
            if self.made > MADE:
                raise ArgumentError(
                    f"it makes more than {MADE} bytes of numbers alone: make them outside, and "
                    f"pass them as arguments"
                )
        references = iter(node.inputs)
        arguments = []
        for p in calls.parameters(node.op):
            if p.role:
                arguments.append(_ghost(next(references)))
            elif p.name != "donate":
                arguments.append(_setting(node, p))
        with under(None), self.layer:
            result = getattr(ops_for(registry.null_backend()), node.op)(*arguments)
        results = result if isinstance(result, (list, tuple)) else [result]
        found = [(tuple(x.shape), x.dtype) for x in results]
        if found != [(v.shape, v.dtype) for v in node.outputs]:
            given = ", ".join(f"{dtype}{shape}" for shape, dtype in found[:4])
            raise ArgumentError(f"{shown(node)[:200]} gives {given}")


def _check_size(what: str, x: Any) -> None:
    if len(x.shape) > RANK:
        raise ArgumentError(f"{what} has {len(x.shape)} axes")
    if math.prod(n or 1 for n in x.shape) * x.dtype.itemsize > BYTES:
        raise ArgumentError(f"{what} is {x.dtype}{tuple(x.shape)}, more than {BYTES} bytes")


def _ghost(ref: Any) -> Any:
    if isinstance(ref, Value):
        return NullAdapter(rules.Spec(ref.shape, ref.dtype, CPU))
    return None if ref is None else [_ghost(value) for value in ref]


def _setting(node: Node, p: calls.Parameter) -> Any:
    setting = node.parameters[p.name]
    if p.kind == "Device":
        return CPU
    if isinstance(setting, HostExpression):
        random = node.op in _RANDOM and p.name in _VARYING
        if not random and (p.kind != "Scalar" or node.op == "arange"):
            raise ArgumentError(f"{p.name} of {node.op} may not change from call to call")
        return 0
    if not isinstance(setting, Graph) and any(expressions_of(setting)):
        raise ArgumentError(f"{p.name} of {node.op} may not change from call to call")
    return setting


def _check_settings(name: str, arguments: Sequence[Any], options: Any) -> None:
    """What ``preconditions.request`` takes for granted. Raises an error of ours, or of Python."""
    operation = getattr(TensorBackend, name, None)
    if operation is not None and name not in ("constant", "scalar"):
        problem = misfit(operation, (None, *arguments), options)
        if problem:
            raise ArgumentError(f"[{name}] {problem}")
    given = calls.given(name, tuple(arguments), options)
    x: Any = next(iter(calls.adapters(given.values())), None)
    for p in calls.parameters(name):
        value: Any = given.get(p.name, ())
        if p.kind == "Axes" and len(set(value)) != len(value):
            raise ArgumentError(f"[{name}] {p.name} {value} names one axis twice")
    if name == "permute" and len(given["axes"]) != len(x.shape):
        raise ArgumentError(f"[permute] axes {given['axes']} of an array of {len(x.shape)} axes")
    if name == "full":
        scalar("full", given["value"], given["dtype"])
    if name == "pad":
        scalar("pad", given.get("value", 0), x.dtype)
    if name in _RANDOM and not (0 <= given["seed"] < 1 << 64 and 0 <= given["offset"] < 1 << 64):
        raise ArgumentError(f"[{name}] a seed and an offset have 64 bits")
    if name == "slice_update":
        rules.slice(x, given["starts"], given["updates"].shape, given["steps"])
    if name in _LISTING:
        sizes = [n for a in calls.adapters(given.values()) for n in a.shape]
        sizes += [n for v in given.values() if isinstance(v, (list, tuple))
                  for n in v if type(n) is int]  # fmt: skip
        if max(sizes, default=0) > _LISTED:
            raise ArgumentError(f"[{name}] {max(sizes)} of something, more than {_LISTED}")
