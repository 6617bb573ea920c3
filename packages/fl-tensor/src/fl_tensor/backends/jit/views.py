"""The arrays that values show, of those that have storage of their own."""

from __future__ import annotations

from typing import Any

from fl_tensor.backends.numpy.adapter import TO_NUMPY
from fl_tensor.backends.numpy.views import strided
from fl_tensor.graph.ir import Value
from fl_tensor.graph.layout import Layout


def show(values: dict[Value, Any], value: Value, layout: Layout) -> Any:
    """The array of a value, or the number: what its root has, or a view of it."""
    root, offset, strides = layout
    if root is value:
        return values[root]
    return strided(values[root], TO_NUMPY[root.dtype], offset, value.shape, strides)
