"""Memory layouts of operands."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

from fl_tensor.dtypes import DType

Shape: TypeAlias = tuple[int, ...]


class Layout(NamedTuple):
    """A strided layout of elements of ``dtype``.

    shape     logical: images are (batch, channels, *spatial), whatever their order in memory
    strides   in elements, one per axis (channels-last is expressed by strides). None leaves the
              choice to the kernel library, whose kernel then states the layout
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
    """A private layout of a kernel library, such as blocked weights.

    Two layouts are equal if memory in one can be read as the other. ``shape`` is logical.
    ``nbytes`` is the size in memory, padding included. Elementwise kernels that map zero to zero
    may treat it as ``nbytes`` of ``dtype``, because padding is zero and stays zero.
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
    """A dense layout in C order."""
    return Layout(dtype, shape, dense(shape, tuple(range(len(shape)))))


def channels_last(dtype: DType, shape: Shape) -> Layout:
    """A dense layout of (batch, channels, *spatial) with the channels contiguous."""
    return Layout(dtype, shape, dense(shape, (0, *range(2, len(shape)), 1)))


def any_layout(dtype: DType, shape: Shape) -> Layout:
    """A layout that the kernel library chooses."""
    return Layout(dtype, shape, None)


def dense(shape: Shape, order: Shape) -> Shape:
    """Strides without gaps; ``order`` lists the axes from slowest to fastest."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
