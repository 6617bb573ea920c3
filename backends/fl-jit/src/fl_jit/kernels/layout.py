"""How the elements of an operand lie in memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

from fl_tensor.dtypes import DType

Shape: TypeAlias = tuple[int, ...]


class Layout(NamedTuple):
    """Elements of ``dtype`` by strides.

    shape     logical: images are (batch, channels, *spatial), whatever their order in memory
    strides   in elements, one per axis, as they are (channels-last is a matter of strides); None
              leaves the choice to the provider, whose kernel then says what it chose
    """

    dtype: DType
    shape: Shape
    strides: Shape | None

    @property
    def elements(self) -> int:
        """Elements from the first to the last one in memory, gaps included."""
        if self.strides is None or 0 in self.shape:
            return math.prod(self.shape)
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last one."""
        return self.elements * self.dtype.itemsize

    def __str__(self) -> str:
        order = "any" if self.strides is None else "x".join(map(str, self.strides))
        return f"{self.dtype}[{'x'.join(map(str, self.shape))}]:{order}"


class Packed:
    """A layout of a provider's own, such as blocked weights.

    Two are equal when memory in one may be read as the other. ``shape`` is logical, ``nbytes`` is
    what the memory takes, padding included; elementwise work may treat it as ``nbytes`` of
    ``dtype``, because padding is zero and whatever maps zero to zero keeps it so.
    """

    __slots__ = ("dtype", "nbytes", "opaque", "shape")

    def __init__(self, dtype: DType, shape: Shape, nbytes: int, opaque: Any) -> None:
        self.dtype = dtype
        self.shape = shape
        self.nbytes = nbytes
        self.opaque = opaque

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Packed):
            return NotImplemented
        same = (self.dtype, self.shape, self.nbytes) == (other.dtype, other.shape, other.nbytes)
        return same and bool(self.opaque == other.opaque)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, self.nbytes))

    def __repr__(self) -> str:
        return f"Packed({self.dtype}, {self.shape}, {self.nbytes} bytes)"


Placement: TypeAlias = Layout | Packed


def row_major(dtype: DType, shape: Shape) -> Layout:
    """Densely, the last axis fastest."""
    return Layout(dtype, shape, dense(shape, tuple(range(len(shape)))))


def channels_last(dtype: DType, shape: Shape) -> Layout:
    """(batch, channels, *spatial), densely, with the channels of one place side by side."""
    return Layout(dtype, shape, dense(shape, (0, *range(2, len(shape)), 1)))


def any_layout(dtype: DType, shape: Shape) -> Layout:
    """As the provider likes it best."""
    return Layout(dtype, shape, None)


def dense(shape: Shape, order: Shape) -> Shape:
    """Strides without gaps, the axes slowest first."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
