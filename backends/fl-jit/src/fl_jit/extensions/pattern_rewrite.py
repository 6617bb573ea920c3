"""A pass that replaces the composition of an operation in a graph by the operation itself."""

from __future__ import annotations

from typing import Any

from fl_jit.extensions.operations import Operation
from fl_jit.traces.tracing import Type
from fl_tensor.dtypes import DType, float32
from fl_tensor.errors import ArgumentError, FlError
from fl_tensor.graph import Graph, Node, Value, match
from fl_tensor.graph.constant_folding import fold_constants
from fl_tensor.graph.cse import cse
from fl_tensor.graph.pipeline import Function


def replacing(
    operation: Operation, *shapes: tuple[int, ...], dtype: DType = float32, **parameters: Any
) -> Function:
    """A pass that calls ``operation`` wherever a graph computes its composition.

    shapes, dtype  of operands to record the composition with: an example of their ranks, and of
                   which of them broadcast. Matches all sizes that give the same operations
    parameters     the operation's own

    Numbers in a graph are data, which a pass does not read. The composition must take its numbers
    as operands of shape (). Raises ArgumentError for a composition with numbers of its own, one
    that cannot be recorded as one call, or one that computes nothing. So does an argument other
    than an ``ft.jit.operation``.
    """
    if not isinstance(operation, Operation):
        raise ArgumentError(
            f"[replacing] {operation!r} is a {type(operation).__name__}: expected what "
            f"ft.jit.operation gives; those of the contract have no composition to look for"
        )
    example = _body(operation, [Type(shape, dtype) for shape in shapes], parameters)
    if example is None:
        raise ArgumentError(f"[replacing] {operation.name} depends on data: it cannot be found")
    if example.constants:
        raise ArgumentError(
            f"[replacing] the composition of {operation.name} has numbers of its own: make them "
            f"operands of shape ()"
        )
    if not example.nodes:
        raise ArgumentError(f"[replacing] {operation.name} computes nothing for these operands")

    def exactly(operands: list[Value]) -> Graph | None:
        try:
            return _body(operation, operands, parameters)
        except FlError:  # the operation rejects such operands
            return None

    def made(operands: list[Value], result: Value) -> Node:
        return Node(operation.name, tuple(operands), dict(parameters), (result,))

    return lambda graph: match.replace(graph, example, exactly, made)


def _body(operation: Operation, operands: Any, parameters: dict[str, Any]) -> Graph | None:
    # The graph in the form in which registered passes see it.
    body = operation.body(operands, parameters)
    return None if body is None else cse(fold_constants(body)).prune()
