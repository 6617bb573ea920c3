"""``ft.named``: names of inner values of a graph, given while it is recorded."""

from __future__ import annotations

import re
from typing import TypeVar

from fl_tensor.arrays.array import Array
from fl_tensor.dispatch.stack import active
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.graph.ir import Graph
from fl_tensor.wrappers.trace import trace

__all__ = ["named"]

X = TypeVar("X")
#: A letter first: values without names are shown by their numbers.
_NAME = re.compile(r"[^\W\d][\w.\-/]{0,199}")


def named(x: X, name: str) -> X:
    """``x``, a Tensor or a Variable, under this name in graphs that are being recorded:

        hidden = ft.named(ft.tanh(x @ w), "hidden")

    ``ft.trace`` and ``ft.compile`` record it; elsewhere nothing happens. The name is in
    ``print(graph)``, in files, and known to ``ft.extract``. A second value of the same name gets
    ``hidden_2``. It has no influence on what is computed: a name goes where a graph pass removes
    its value.

    name  letters, digits and ``_ . - /``, a letter first

    Raises DTypeError for what is no array, ArgumentError for another name.
    """
    if not isinstance(x, Array):
        raise DTypeError(f"[named] a {type(x).__name__}: expected a Tensor or a Variable")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArgumentError(
            f"[named] name {name!r}: expected letters, digits and _ . - /, a letter first"
        )
    for layer in active(trace):
        value = layer.graph.find(x._tensor().adapter)
        if value is not None:
            value.name = ""
            value.name = _unused(name, layer.graph)
    return x


def _unused(name: str, graph: Graph) -> str:
    values = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]
    taken = {value.name for value in values}
    found, count = name, 2
    while found in taken:
        found, count = f"{name}_{count}", count + 1
    return found
