"""``ArrayMethods``: public functions as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor.functions as functions
from fl_tensor.arrays.numpy_methods import NumPyMethods
from fl_tensor.device import Device
from fl_tensor.dispatch import frontend
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError
from fl_tensor.functions import elementwise, gathering, reducing, searching, shaping

Axes = int | Sequence[int] | None


class ArrayMethods(NumPyMethods):
    """``x.name(...)`` is ``ft.name(x, ...)``."""

    __slots__ = ()

    def copy(self) -> Any:
        """Another handle on the value; values are immutable, so no data is copied."""
        return frontend.same_value(self)

    def astype(self, dtype: DType | str | type[Any]) -> Any:
        return elementwise.cast(self, dtype)

    @property
    def real(self) -> Any:
        """The real part, ``ft.real(x)``."""
        return elementwise.real(self)

    @property
    def imag(self) -> Any:
        """The imaginary part, ``ft.imag(x)``."""
        return elementwise.imag(self)

    def conj(self) -> Any:
        return elementwise.conj(self)

    def reshape(self, *shape: Any) -> Any:
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return shaping.reshape(self, given)

    def flatten(self) -> Any:
        return shaping.reshape(self, (-1,))

    def permute(self, *axes: Any) -> Any:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return shaping.permute(self, given)

    def transpose(self, *axes: Any) -> Any:
        """Axes in the given order; reversed without arguments."""
        return self.permute(*axes) if axes else shaping.permute(self, range(self.ndim)[::-1])

    @property
    def T(self) -> Any:
        """The transpose of a matrix; ArgumentError for another number of axes."""
        if len(self.shape) != 2:
            raise ArgumentError(f"[T] x {self.shape}: expected two axes; use mT or permute")
        return self.permute(1, 0)

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return functions.swapaxes(self, -2, -1)

    def squeeze(self, axis: Axes = None) -> Any:
        return shaping.squeeze(self, axis)

    def expand_dims(self, axis: int) -> Any:
        return shaping.expand_dims(self, axis)

    def sum(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: DType | str | type[Any] | None = None,
    ) -> Any:
        return reducing.sum(self, axis, keepdims, dtype)

    def prod(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: DType | str | type[Any] | None = None,
    ) -> Any:
        return reducing.prod(self, axis, keepdims, dtype)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.mean(self, axis, keepdims)

    def var(self, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Any:
        return functions.var(self, axis, keepdims, correction)

    def std(self, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Any:
        return functions.std(self, axis, keepdims, correction)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.max(self, axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.min(self, axis, keepdims)

    def any(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.any(self, axis, keepdims)

    def all(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.all(self, axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return searching.argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return searching.argmin(self, axis, keepdims)

    def exp(self) -> Any:
        return functions.exp(self)

    def log(self) -> Any:
        return functions.log(self)

    def sqrt(self) -> Any:
        return functions.sqrt(self)

    def tanh(self) -> Any:
        return functions.tanh(self)

    def sigmoid(self) -> Any:
        return functions.sigmoid(self)

    def relu(self) -> Any:
        return functions.relu(self)

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return functions.clip(self, low, high)

    def round(self, decimals: int = 0) -> Any:
        return elementwise.round(self, decimals)

    def argsort(self, axis: int = -1, descending: bool = False) -> Any:
        return functions.argsort(self, axis, descending)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return functions.diagonal(self, offset, axis1, axis2)

    def nonzero(self) -> Any:
        return gathering.nonzero(self)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return functions.swapaxes(self, axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Any:
        return shaping.repeat(self, repeats, axis)

    def take(self, indices: Any, axis: int | None = None) -> Any:
        return searching.take(self, indices, axis)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Any:
        """The same values on another device of the backend."""
        if stream is not None:
            raise ArgumentError(f"[to_device] stream {stream!r}: moves are not queued on streams")
        place = Device.parse(device)
        return frontend.same_value(self) if place == self.device else self.to(place)
