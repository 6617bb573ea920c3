"""``ArrayMethods``: public functions as methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import fl_tensor.functions as functions
from fl_tensor.arguments import refuse
from fl_tensor.arrays.numpy_methods import NumPyMethods
from fl_tensor.device import Device
from fl_tensor.dispatch import frontend
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError
from fl_tensor.functions import elementwise, gathering, reducing, searching, shaping

Axes = int | Sequence[int] | None
DTypeLike = DType | str | type[Any] | None


def _operand(op: str, x: Any, foreign: Mapping[str, Any], out: Any, dtype: DTypeLike = None) -> Any:
    """``x`` in ``dtype``, for the methods that NumPy's functions call: ``np.mean(x)`` calls
    ``x.mean(axis=None, dtype=None, out=None)``. ArgumentError for an ``out``, DTypeError for
    ``foreign`` arguments."""
    if foreign:
        refuse(op, foreign)
    if out is not None:
        raise ArgumentError(
            f"[{op}] out= {type(out).__name__}: results are new values; write y = x.{op}(...), or "
            f"np.copyto(out, x.{op}(...))"
        )
    return x if dtype is None else elementwise.cast(x, dtype)


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
        """Axes in the given order; reversed without arguments, or with None."""
        named = len(axes) > 0 and not (len(axes) == 1 and axes[0] is None)
        return self.permute(*axes) if named else shaping.permute(self, range(self.ndim)[::-1])

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

    def squeeze(self, axis: Axes = None, **foreign: NoReturn) -> Any:
        if foreign:
            refuse("squeeze", foreign)
        return shaping.squeeze(self, axis)

    def expand_dims(self, axis: int, **foreign: NoReturn) -> Any:
        if foreign:
            refuse("expand_dims", foreign)
        return shaping.expand_dims(self, axis)

    def sum(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: DTypeLike = None,
        out: None = None,
        **foreign: NoReturn,
    ) -> Any:
        return reducing.sum(_operand("sum", self, foreign, out), axis, keepdims, dtype)

    def prod(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: DTypeLike = None,
        out: None = None,
        **foreign: NoReturn,
    ) -> Any:
        return reducing.prod(_operand("prod", self, foreign, out), axis, keepdims, dtype)

    def mean(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        dtype: DTypeLike = None,
        out: None = None,
        **foreign: NoReturn,
    ) -> Any:
        return functions.mean(_operand("mean", self, foreign, out, dtype), axis, keepdims)

    def var(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        correction: float = 0.0,
        dtype: DTypeLike = None,
        out: None = None,
        ddof: float | None = None,
        **foreign: NoReturn,
    ) -> Any:
        x = _operand("var", self, foreign, out, dtype)
        return functions.var(x, axis, keepdims, correction if ddof is None else ddof)

    def std(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        correction: float = 0.0,
        dtype: DTypeLike = None,
        out: None = None,
        ddof: float | None = None,
        **foreign: NoReturn,
    ) -> Any:
        x = _operand("std", self, foreign, out, dtype)
        return functions.std(x, axis, keepdims, correction if ddof is None else ddof)

    def max(
        self, axis: Axes = None, keepdims: bool = False, out: None = None, **foreign: NoReturn
    ) -> Any:
        return functions.max(_operand("max", self, foreign, out), axis, keepdims)

    def min(
        self, axis: Axes = None, keepdims: bool = False, out: None = None, **foreign: NoReturn
    ) -> Any:
        return functions.min(_operand("min", self, foreign, out), axis, keepdims)

    def any(
        self, axis: Axes = None, keepdims: bool = False, out: None = None, **foreign: NoReturn
    ) -> Any:
        return functions.any(_operand("any", self, foreign, out), axis, keepdims)

    def all(
        self, axis: Axes = None, keepdims: bool = False, out: None = None, **foreign: NoReturn
    ) -> Any:
        return functions.all(_operand("all", self, foreign, out), axis, keepdims)

    def argmax(
        self, axis: int | None = None, keepdims: bool = False, out: None = None, **foreign: NoReturn
    ) -> Any:
        return searching.argmax(_operand("argmax", self, foreign, out), axis, keepdims)

    def argmin(
        self, axis: int | None = None, keepdims: bool = False, out: None = None, **foreign: NoReturn
    ) -> Any:
        return searching.argmin(_operand("argmin", self, foreign, out), axis, keepdims)

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

    def clip(self, low: Any = None, high: Any = None, out: None = None) -> Any:
        return functions.clip(_operand("clip", self, {}, out), low, high)

    def round(self, decimals: int = 0, out: None = None) -> Any:
        return elementwise.round(_operand("round", self, {}, out), decimals)

    def argsort(self, axis: int = -1, descending: bool = False, **foreign: NoReturn) -> Any:
        if foreign:
            refuse("argsort", foreign)
        return functions.argsort(self, axis, descending)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return functions.diagonal(self, offset, axis1, axis2)

    def nonzero(self) -> Any:
        return gathering.nonzero(self)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return functions.swapaxes(self, axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None, **foreign: NoReturn) -> Any:
        if foreign:
            refuse("repeat", foreign)
        return shaping.repeat(self, repeats, axis)

    def take(self, indices: Any, axis: int | None = None, **foreign: NoReturn) -> Any:
        if foreign:
            refuse("take", foreign)
        return searching.take(self, indices, axis)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Any:
        """The same values on another device of the backend."""
        if stream is not None:
            raise ArgumentError(f"[to_device] stream {stream!r}: moves are not queued on streams")
        place = Device.parse(device)
        return frontend.same_value(self) if place == self.device else self.to(place)
