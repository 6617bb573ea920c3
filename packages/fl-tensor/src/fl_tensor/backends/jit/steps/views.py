"""The arrays that values show, of those that have storage of their own."""

from __future__ import annotations

from typing import Any

from fl_tensor.backends.jit.kept import Kept
from fl_tensor.backends.numpy.adapter import TO_NUMPY
from fl_tensor.backends.numpy.views import strided
from fl_tensor.graph.ir import Value
from fl_tensor.graph.layout import Layout


def show(values: dict[Value, Any], value: Value, layout: Layout) -> Any:
    """The array of a value, or the number: what its root has, or a view of it; or what is kept in
    its place."""
    root, offset, strides = layout
    found = values[root]
    if root is value or found.__class__ is Kept:  # all that read what is kept read it in one way
        return found
    return strided(found, TO_NUMPY[root.dtype], offset, value.shape, strides)
