"""Questions about dtypes, shapes and kinds; ``astype`` as a function."""

from __future__ import annotations

import operator
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments
from fl_tensor.array_api.data_types import can_cast, isdtype, result_type
from fl_tensor.device import DeviceLike
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of
from fl_tensor.dtypes import DType

__all__ = [
    "array_equiv",
    "astype",
    "can_cast",
    "common_type",
    "isdtype",
    "iscomplex",
    "iscomplexobj",
    "isreal",
    "isrealobj",
    "isscalar",
    "iterable",
    "ndim",
    "result_type",
    "shape",
    "size",
]


def astype(
    x: ArrayLike,
    dtype: DType | str | type[Any],
    *,
    copy: bool = True,
    device: DeviceLike = None,
) -> Any:
    """``x`` in another dtype, and on another device if one is given. Values are immutable, so
    ``copy`` makes no difference that could be seen. A complex ``x`` becomes real by ``real`` or
    ``imag`` only: DTypeError."""
    made = ft.cast(x, dtype)
    return made if device is None else made.to_device(device)


def common_type(*xs: ArrayLike) -> DType:
    """The floating dtype in which these arrays meet; that of integers is the default float."""
    arrays = [operand("common_type", "F", x) for x in xs]
    return result_type(*[x.dtype for x in arrays])


def ndim(x: ArrayLike) -> int:
    """The number of axes."""
    return len(shape(x))


def shape(x: ArrayLike) -> tuple[int, ...]:
    """The sizes of the axes."""
    found: tuple[int, ...] = operand("shape", "A", x).shape
    return found


def size(x: ArrayLike, axis: int | None = None) -> int:
    """The number of elements, or the size of one axis. Raises AxisError."""
    x = operand("size", "A", x)
    found: int = x.size if axis is None else x.shape[arguments.axis_of("size", axis, x.shape)]
    return found


def isscalar(x: Any) -> bool:
    """Whether ``x`` is a Python number; an array without axes is none."""
    return isinstance(x, arguments.SCALARS)


def iterable(x: Any) -> bool:
    """Whether ``iter(x)`` works: not on an array without axes."""
    if isinstance(x, ft.Array):
        return x.ndim > 0
    try:
        iter(x)
    except TypeError:
        return False
    return True


def iscomplex(x: ArrayLike) -> Any:
    """True where the imaginary part is not zero."""
    return ft.not_equal(ft.imag(x), 0)


def isreal(x: ArrayLike) -> Any:
    """True where the imaginary part is zero."""
    return ft.equal(ft.imag(x), 0)


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype of ``x`` is complex, whatever the elements are."""
    return operator.eq(operand("iscomplexobj", "A", x).dtype.kind, "c")


def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype of ``x`` is not complex."""
    return not iscomplexobj(x)


def array_equiv(x: ArrayLike, y: ArrayLike) -> Any:
    """Whether all elements are equal after broadcasting, without axes; False where the shapes do
    not broadcast."""
    x, y = operands_of("array_equiv", "PP", x, y)
    try:
        ft.broadcast_shapes(x.shape, y.shape)
    except ft.ShapeError:
        return ft.zeros_like(x, ft.bool, x.device).any()
    return ft.all(ft.equal(x, y))
