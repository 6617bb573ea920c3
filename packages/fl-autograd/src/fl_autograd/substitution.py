"""Other values in the place of what leaves hold, for a while: to record a function without data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from fl_autograd.node import Leaf
from fl_autograd.variable import Variable
from fl_tensor import Tensor

__all__ = ["preserved", "substitute"]


def substitute(leaf: Variable, value: Tensor) -> None:
    """Give a leaf a value of its shape and dtype that may be on another backend. There it has no
    gradient yet; its hooks stay. Only inside ``preserved``, unless the backend is the same. Nothing
    is checked: a value of another shape or dtype belongs to ``Variable.tensor``, which refuses it.
    """
    if value._backend is not leaf._backend:
        node = leaf._node
        if node is not None:
            fresh = Leaf(value.shape, value.dtype, value._backend)
            fresh.hooks = node.hooks
            leaf._node = fresh
        leaf._backend = value._backend
    leaf._adapter = value.adapter


@contextmanager
def preserved(leaves: Iterable[Variable]) -> Iterator[None]:
    """Values and gradients of leaves are as before at the end of the block."""
    before = [(x, x._adapter, x._backend, x._node, x.grad) for x in leaves]
    try:
        yield
    finally:
        for x, adapter, backend, node, grad in before:
            x._adapter, x._backend, x._node = adapter, backend, node
            if isinstance(node, Leaf):
                node.grad = grad
