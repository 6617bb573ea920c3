"""The arrays of values, as views of the arrays that own storage."""

from __future__ import annotations

from typing import Any

from fl_jit.eager.prepacked import PrepackedArray
from fl_jit.eager.views import strided
from fl_tensor.extend.numpy import TO_NUMPY
from fl_tensor.graph import Value
from fl_tensor.graph.strides import StridedLayout


def show(values: dict[Value, Any], value: Value, layout: StridedLayout) -> Any:
    """The array or number of a value: its root's, or a view of it. A ``PrepackedArray`` is returned
    as it is."""
    root, offset, strides = layout
    found = values[root]
    if (
        root is value or found.__class__ is PrepackedArray
    ):  # all readers of a prepacked array read the same view
        return found
    return strided(found, TO_NUMPY[root.dtype], offset, value.shape, strides)
