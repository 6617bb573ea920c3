"""``Array``: operators, indexing and methods of all array classes.

A subclass defines its values: ``_adapter`` and ``_backend`` (the value and its backend), ``_raw``
(the operand of its namespace of operations), ``_ops()`` (that namespace), ``_wrap(raw)`` (an array
of the class), ``_operand_class`` and ``_lift(other)`` (conversion of another class). ``Tensor``
wraps adapters. Other packages add classes. Conversions are in ``value``, methods in ``methods``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import fl_tensor.arrays.indexing as indexing
import fl_tensor.functions as functions
from fl_tensor import arguments
from fl_tensor.arrays.methods import ArrayMethods
from fl_tensor.dispatch import frontend
from fl_tensor.errors import DTypeError
from fl_tensor.functions import products

if TYPE_CHECKING:
    from typing_extensions import Self


class Array(ArrayMethods):
    """An n-dimensional array of one dtype on one device."""

    __slots__ = ()

    # Equality is elementwise, so arrays are no dictionary keys.
    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        return indexing.getitem(self, index)

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __add__(self, other: Any) -> Any:
        return functions.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return functions.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return functions.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return functions.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return functions.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return functions.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return functions.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return functions.divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return functions.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return functions.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return functions.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return functions.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return functions.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return functions.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return products.matmul(other, self)

    def __and__(self, other: Any) -> Any:
        return functions.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return functions.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return functions.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return functions.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return functions.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return functions.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return functions.bitwise_left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return functions.bitwise_left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return functions.bitwise_right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return functions.bitwise_right_shift(other, self)

    def __neg__(self) -> Any:
        return functions.negative(self)

    def __pos__(self) -> Any:
        same = frontend.operand("positive", "N", self)
        return frontend.same_value(same)

    def __abs__(self) -> Any:
        return functions.absolute(self)

    def __invert__(self) -> Any:
        return functions.bitwise_invert(self)

    # An array is not equal to what is no array (None, a string, ...): Python then answers False.

    def __eq__(self, other: object) -> Any:
        other = self._comparable(other)
        return other if other is NotImplemented else functions.equal(self, other)

    def __ne__(self, other: object) -> Any:
        other = self._comparable(other)
        return other if other is NotImplemented else functions.not_equal(self, other)

    def _comparable(self, other: object) -> Any:
        if isinstance(other, (Array, *arguments.SCALARS)):
            return other
        try:
            return frontend.converted(other, self)
        except DTypeError:
            return NotImplemented

    def __lt__(self, other: Any) -> Any:
        return functions.less(self, other)

    def __le__(self, other: Any) -> Any:
        return functions.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return functions.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return functions.greater_equal(self, other)
