"""``NumPyMethods``: more methods of NumPy's and PyTorch's arrays; each gives a new value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor.functions as functions
from fl_tensor.arrays.value import ArrayValue
from fl_tensor.dispatch import frontend
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError
from fl_tensor.functions import elementwise, products, searching, shaping

DTypeLike = DType | str | type[Any] | None


class NumPyMethods(ArrayValue):
    """Methods under NumPy's and PyTorch's names, beside those of ``ArrayMethods``."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements, as ``x.size``."""
        return self.size

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def detach(self) -> Any:
        """The value without a history: ``x`` itself, where there is none."""
        return frontend.same_value(self)

    def abs(self) -> Any:
        return functions.absolute(self)

    def pow(self, y: Any) -> Any:
        return functions.power(self, y)

    def conjugate(self) -> Any:
        return elementwise.conj(self)

    def ravel(self) -> Any:
        return shaping.reshape(self, (-1,))

    def dot(self, y: Any) -> Any:
        """The product with a vector ``y`` (n,): of (..., n) it is (...). ArgumentError for another
        ``y``, of which ``x @ y`` is NumPy's product, and ``ft.dot`` that of rows."""
        x, y = frontend.operands_of("dot", "NN", self, y)
        if y.ndim != 1 or x.ndim == 0:
            raise ArgumentError(
                f"[dot] x {x.shape} and y {y.shape}: expected a vector y; write x @ y for a "
                f"product of matrices, ft.dot(x, y) for products of rows, x * y for numbers"
            )
        return products.matmul(x, y)

    def cumsum(self, axis: int | None = None, dtype: DTypeLike = None) -> Any:
        from fl_tensor.numpy_functions import statistics

        return statistics.cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: DTypeLike = None) -> Any:
        from fl_tensor.numpy_functions import statistics

        return statistics.cumprod(self, axis, dtype)

    def ptp(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
        from fl_tensor.numpy_functions import statistics

        return statistics.ptp(self, axis, keepdims)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """The sum of ``diagonal(offset, axis1, axis2)``. (``ft.trace`` records a graph.)"""
        return functions.generated.trace(self, offset, axis1, axis2)

    def sort(self, axis: int = -1, descending: bool = False) -> Any:
        """Sorted values, a new array: ``x`` stays as it is, other than in NumPy."""
        return functions.sort(self, axis, descending)

    def searchsorted(self, values: Any, side: str = "left", sorter: Any = None) -> Any:
        return searching.searchsorted(self, values, side, sorter)

    def __round__(self, decimals: int | None = None) -> Any:
        return elementwise.round(self, decimals or 0)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return functions.floor_divide(self, other), functions.remainder(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return functions.floor_divide(other, self), functions.remainder(other, self)
