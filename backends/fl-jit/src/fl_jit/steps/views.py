"""The arrays of values, as views of the arrays that own storage."""

from __future__ import annotations

from typing import Any

from fl_jit.eager.views import strided
from fl_jit.traces.prepacked import PrepackedArray
from fl_tensor.extend.numpy import TO_NUMPY
from fl_tensor.graph import Value
from fl_tensor.graph.strides import StridedLayout


def array_of(values: dict[Value, Any], value: Value, layout: StridedLayout) -> Any:
    """The array or number of a value: its root's, or a view of it."""
    root, offset, strides = layout
    array = values[root]
    if array.__class__ is PrepackedArray:
        array = array.array()
    return (
        array
        if root is value
        else strided(array, TO_NUMPY[root.dtype], offset, value.shape, strides)
    )
