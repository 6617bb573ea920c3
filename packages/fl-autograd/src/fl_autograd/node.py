"""The graph: one node per recorded operation, holding what its rule needs and no more.

Nodes point from a result to the operands it came from, never back and never at a variable, so a
graph has no reference cycle and dies with its last result. Graphs of millions of nodes are normal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fl_autograd.rules.table import Rule
    from fl_autograd.variable import Variable

Hook = Callable[["Variable"], "Variable | None"]


class Node:
    """One recorded operation.

    rule    the Rule that differentiates it; None for a leaf
    ins     the nodes of its differentiable operands (None where one needs no gradient);
            None once the node has been freed
    saved   what the rule asked to keep: adapters and plain values
    shape   shape of the result
    base    backend of the result
    hooks   functions that see the result's gradient, in order of registration; None without any
    """

    __slots__ = ("base", "hooks", "ins", "rule", "saved", "shape")

    rule: Rule | None
    ins: tuple[Node | None, ...] | None
    saved: tuple[Any, ...] | None
    shape: tuple[int, ...]
    base: Any
    hooks: dict[int, Hook] | None


class Leaf(Node):
    """Where gradients accumulate. The gradient lives here and not in the variable: the graph
    reaches the leaf, and the leaf never points back at the variable."""

    __slots__ = ("dtype", "grad")

    def __init__(self, shape: tuple[int, ...], dtype: Any, base: Any) -> None:
        self.rule = None
        self.ins = ()
        self.saved = ()
        self.shape = shape
        self.base = base
        self.hooks = None
        self.dtype = dtype
        self.grad: Variable | None = None
