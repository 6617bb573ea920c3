"""The arrays that values show, of those that have storage of their own."""

from __future__ import annotations

from typing import Any

from fl_jit.eager.prepacked import PrepackedArray
from fl_tensor.backends.numpy.adapter import TO_NUMPY
from fl_tensor.backends.numpy.views import strided
from fl_tensor.graph import Value
from fl_tensor.graph.strides import StridedLayout


def show(values: dict[Value, Any], value: Value, layout: StridedLayout) -> Any:
    """The array of a value, or the number: what its root has, or a view of it; or what is kept in
    its place."""
    root, offset, strides = layout
    found = values[root]
    if (
        root is value or found.__class__ is PrepackedArray
    ):  # all that read what is kept read it in one way
        return found
    return strided(found, TO_NUMPY[root.dtype], offset, value.shape, strides)
