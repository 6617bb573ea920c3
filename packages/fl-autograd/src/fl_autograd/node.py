"""The graph: one node per recorded operation, with only the values that its rule needs.

Nodes point from a result to the operands it came from, never back and never at a variable, so a
graph has no reference cycle and dies with its last result. Graphs of millions of nodes are normal.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fl_tensor.arguments import function_of

if TYPE_CHECKING:
    from fl_autograd.rules.table import Rule
    from fl_autograd.variable import Variable

Hook = Callable[["Variable"], "Variable | None"]
NodeHook = Callable[
    [tuple["Variable | None", ...], "Variable"], "tuple[Variable | None, ...] | None"
]
N = TypeVar("N", bound="Node")

_keys = itertools.count()


class Hooks:
    """Functions that see gradients pass through a node, in order of registration: those of its
    result ``before`` the rule, those of its operands ``after`` it; of a leaf those to call when the
    gradient is ``accumulated``."""

    __slots__ = ("accumulated", "after", "before")

    def __init__(self) -> None:
        self.before: dict[int, Hook] = {}
        self.after: dict[int, NodeHook] = {}
        self.accumulated: dict[int, Callable[[], Any]] = {}


class Node:
    """One recorded operation.

    rule    the Rule that differentiates it; None for a leaf
    ins     the nodes of its differentiable operands (None where one needs no gradient);
            None once the node has been freed
    saved   what the rule asked to keep: a tuple of adapters and plain values; or an object whose
            ``restore()`` gives such a tuple in the backward pass; None once freed
    shape   shape of the result
    base    backend of the result
    hooks   functions that see gradients here; None without any
    module  path of the module that recorded it; missing unless memory was observed (``causes.py``)
    """

    __slots__ = ("base", "hooks", "ins", "module", "rule", "saved", "shape")

    rule: Rule | None
    ins: tuple[Node | None, ...] | None
    saved: Any
    shape: tuple[int, ...]
    base: Any
    hooks: Hooks | None
    module: str

    @property
    def name(self) -> str:
        """The operation, ``"leaf"`` for a leaf."""
        return self.rule.name if self.rule is not None else "leaf"

    def saved_value(self, name: str) -> Any:
        """What the rule saves under a name (an operand, ``"out"``, an argument): the adapter or
        value; None where it is not needed. KeyError for a name that the rule does not ask for."""
        names = self.rule.names if self.rule is not None else ()
        if name not in names:
            raise KeyError(f"[{self.name}] saves {', '.join(names) or 'nothing'}, not {name!r}")
        saved = self.saved
        while saved is not None and saved.__class__ is not tuple:
            saved = saved.restore()
        return None if saved is None else saved[names.index(name)]

    def kept(self, name: str) -> Any:
        """Deprecated: ``saved_value``."""
        warnings.warn(
            "Node.kept is deprecated: use Node.saved_value", DeprecationWarning, stacklevel=2
        )
        return self.saved_value(name)

    def register_prehook(self, hook: Hook) -> Callable[[], None]:
        """Call ``hook(grad)`` with the gradient of the result when it is complete, before the rule
        runs; a Variable that it returns replaces it. Returns a function that removes the hook."""
        if self.hooks is None:
            self.hooks = Hooks()
        return _add(self.hooks.before, hook)

    def register_hook(self, hook: NodeHook) -> Callable[[], None]:
        """Call ``hook(grad_inputs, grad)`` after the rule has run: the gradients of the
        differentiable operands (a tuple, None where one needs none) and of the result. A tuple that
        it returns replaces those of the operands. Returns a function that removes the hook. Never
        called on a leaf, which has no operands."""
        if self.hooks is None:
            self.hooks = Hooks()
        return _add(self.hooks.after, function_of("register_hook", hook, "hook"))

    def release(self) -> None:
        """Let go of operands and saved values: what the backward pass does with each node that it
        has left, unless ``retain_graph``. A class of nodes with a lifetime of its own overrides
        it."""
        self.ins = self.saved = None

    def copy(self, kind: type[N]) -> N:
        """The same record as a node of another class, which may have slots of its own."""
        made = object.__new__(kind)
        made.rule, made.ins, made.saved = self.rule, self.ins, self.saved
        made.shape, made.base, made.hooks = self.shape, self.base, self.hooks
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.shape}>"


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

    def register_accumulated(self, hook: Callable[[], Any]) -> Callable[[], None]:
        """Call ``hook()`` whenever a backward pass has added its gradient to ``grad``. Returns a
        function that removes the hook."""
        if self.hooks is None:
            self.hooks = Hooks()
        return _add(self.hooks.accumulated, hook)


def _add(hooks: dict[int, Any], hook: Any) -> Callable[[], None]:
    key = next(_keys)
    hooks[key] = hook

    def remove() -> None:
        hooks.pop(key, None)

    return remove
