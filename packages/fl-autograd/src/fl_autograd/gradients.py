"""Gradient values during the backward pass: adapters, or variables where they are recorded.

Row gradients are always variables, gradients of slices are ``SliceGradients``. For a complex
``z = x + i y`` users and hooks see ``dL/dx + i dL/dy``, as in PyTorch. Rules compute with its
conjugate, so that real rules hold for all functions with a complex derivative
(``rules/complex_parts.py``).
``conjugated`` converts between the two.
"""

from __future__ import annotations

from typing import Any

from fl_autograd.errors import GradError
from fl_autograd.node import Leaf, Node
from fl_autograd.slice_gradients import SliceGradients
from fl_autograd.sparse import SparseGradient
from fl_autograd.variable import Variable, variable
from fl_tensor import conj
from fl_tensor.errors import DTypeError, ShapeError


def as_variable(g: Any, base: Any) -> Variable:
    """A gradient as hooks and users see it."""
    return g if isinstance(g, Variable) else variable(g, base, None)


def adapter_of(g: Variable) -> Any:
    """And as rules compute with it."""
    return g if isinstance(g, SparseGradient) else g._adapter


def conjugated(g: Any, base: Any) -> Any:
    """The conjugate of a gradient on ``base``, in the form that ``g`` has; a real one as it is."""
    if g.dtype.kind != "c":
        return g
    if isinstance(g, SparseGradient):
        return g.with_values(conj(g.values))
    made = conj(as_variable(g, base))
    return made if isinstance(g, Variable) else made._adapter


#: Gradients that are no arrays: of parts, and of rows, which only leaves get.
NON_DENSE = frozenset({SliceGradients, SparseGradient})


def add_non_dense(held: Any, g: Any, ops: Any, source: Node) -> Any:
    """The sum of two gradients of ``source``, one of which at least is no array."""
    if source.rule is None and SparseGradient in (held.__class__, g.__class__):
        held, g = (v.to_dense(ops) if v.__class__ is SliceGradients else v for v in (held, g))
        return _add_sparse(held, g, source)
    return held.add(g, ops) if held.__class__ is SliceGradients else g.add(held, ops)


def _add_sparse(held: Any, g: Any, leaf: Node) -> Any:
    total = as_variable(held, leaf.base) + as_variable(g, leaf.base)  # one of them is of rows
    recorded = isinstance(held, Variable) and isinstance(g, Variable)
    return total if recorded else total._adapter


def sum_to(ops: Any, g: Any, shape: tuple[int, ...], node: Node) -> Any:
    """Undo broadcasting: the sum over axes that were added or repeated. ShapeError where ``g``, of
    the rule of ``node``, cannot come from ``shape``."""
    extra = len(g.shape) - len(shape)
    padded = (1,) * max(extra, 0) + shape
    axes = tuple(i for i, (n, m) in enumerate(zip(g.shape, padded)) if n != m)
    if extra < 0 or any(padded[i] != 1 for i in axes):
        name = node.rule.name if node.rule else "leaf"
        raise ShapeError(
            f"[{name}] its gradient rule returned {tuple(g.shape)} for an operand of shape {shape}"
        )
    if axes:
        g = ops.sum(g, axes, True)
    return ops.reshape(g, shape) if extra else g


def accumulate(leaf: Node, g: Any, ops: Any) -> None:
    """Add a gradient to ``.grad`` of a leaf."""
    if not isinstance(leaf, Leaf):
        raise GradError("internal: only leaves accumulate")
    if g.dtype is not leaf.dtype:
        raise DTypeError(f"a gradient of {g.dtype} reached a leaf of {leaf.dtype}: check its rule")
    if g.dtype.kind == "c":
        g = conjugated(g, leaf.base)
    held = leaf.grad
    if held is not None and held.dtype is not g.dtype:  # float32 beside a leaf in half precision
        wide = isinstance(g, SparseGradient)
        g = g.with_values(g.values.astype(held.dtype)) if wide else ops.cast(g, held.dtype)
    if held is None:
        leaf.grad = as_variable(g, leaf.base)
    elif isinstance(held, SparseGradient):
        leaf.grad = held + as_variable(g, leaf.base)
    elif isinstance(g, SparseGradient):
        leaf.grad = g + held
    elif isinstance(g, Variable):
        leaf.grad = ops.add(held, g)
    elif held._node is None:
        held._adapter = ops.add(held._adapter, g)  # whoever holds .grad sees the sum
    else:
        leaf.grad = variable(ops.add(held._adapter, g), leaf.base, None)
