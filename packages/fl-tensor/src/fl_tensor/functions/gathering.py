"""Public gather and scatter functions, with checked and normalised indices."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from fl_tensor import arguments, dtypes, rules
from fl_tensor.arguments import axis_of, refuse
from fl_tensor.dispatch import frontend
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError, IndexingError, ShapeError
from fl_tensor.functions.elementwise import where

__all__ = [
    "embedding",
    "gather",
    "nonzero",
    "one_hot",
    "scatter",
    "take_along_axis",
]


def nonzero(x: ArrayLike) -> tuple[Any, ...]:
    """Indices of the elements that are not zero: one 1-d int64 array per axis, C order."""
    x = operand("nonzero", "A", x)
    if not x.shape:
        raise ShapeError("[nonzero] x has no axes: compare it with zero instead")
    return run("nonzero", x, x._raw)


def gather(x: ArrayLike, indices: ArrayLike, axis: int = 0, **foreign: NoReturn) -> Any:
    """``x`` at integer ``indices`` along ``axis``, which the shape of ``indices`` replaces.
    Negative indices count from the end. Raises IndexingError for one that is out of range."""
    if foreign:
        refuse("gather", foreign)
    x, indices = operands_of("gather", "AA", x, indices)
    axis = axis_of("gather", axis, x.shape)
    indices = in_range("gather", indices, x.shape[axis], axis, x.shape)
    return run("gather", x, x._raw, indices._raw, axis)


def scatter(
    x: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    axis: int = 0,
    mode: str = "set",
    **foreign: NoReturn,
) -> Any:
    """``x`` with ``updates`` written (``"set"``) or added (``"add"``) where ``gather`` would read,
    or there the largest (``"max"``) or smallest (``"min"``) of ``x`` and all updates. ``updates``
    broadcast to the shape of ``gather(x, indices, axis)``. The gradient of a maximum goes in equal
    parts to all that reach it."""
    if foreign:
        refuse("scatter", foreign)
    mode = arguments.choice_of("scatter", mode, "mode", ("set", "add", "max", "min"))
    x, indices, updates = operands_of("scatter", "AAA", x, indices, updates)
    axis = axis_of("scatter", axis, x.shape)
    indices = in_range("scatter", indices, x.shape[axis], axis, x.shape)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    updates = frontend.cast(updates, x.dtype)
    if updates.shape != shape:
        if rules.broadcast("scatter", updates.shape, shape) != shape:
            rules.fail("scatter", x=x.shape, updates=updates.shape, why=f"updates must fit {shape}")
        updates = run("broadcast_to", updates, updates._raw, shape)
    given = (x._raw, indices._raw, updates._raw, axis)
    if mode in ("max", "min"):
        if x.dtype.kind == "c":
            raise DTypeError(f"[scatter] x is {x.dtype}: complex numbers have no {mode}imum")
        return run(f"scatter_{mode}", x, *given)
    return run("scatter", x, *given, mode)


def in_range(
    op: str, indices: Any, size: int, axis: int, shape: Sequence[int], from_end: bool = True
) -> Any:
    """Integer indices, negative ones counted from the end, or refused unless ``from_end``. Reads
    the indices: IndexingError names the first that is out of range."""
    if not indices.dtype.is_integer:
        raise DTypeError(f"[{op}] indices are {indices.dtype}: expected integers")
    low = 0
    if indices.size and indices._backend.has_values:
        low, high = _extremes(indices)
        if low < (-size if from_end else 0) or high >= size:
            bad = high if high >= size else low
            raise IndexingError(
                f"[{op}] x {tuple(shape)}: index {bad} is out of range for axis {axis} of {size}"
            )
    if indices.dtype not in (dtypes.int64, dtypes.int32):
        indices = frontend.cast(indices, dtypes.int64)
    return where(indices < 0, indices + size, indices) if low < 0 else indices


def _extremes(x: Any) -> tuple[int, int]:
    # The smallest and the largest of some integers. Looking at an index is no operation of
    # the program: the backend is asked, not the layers above it.
    backend, value = x._backend, x._tensor()._raw
    axes = tuple(range(len(value.shape)))
    signed = x.dtype.kind == "i"
    found = (backend.min(value, axes), backend.max(value, axes))
    low, high = (int.from_bytes(backend.to_host(v), sys.byteorder, signed=signed) for v in found)
    return low, high


def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int = -1, **foreign: NoReturn) -> Any:
    """``out[..., i, ...] = x[..., indices[..., i, ...], ...]``. ``indices`` has as many axes as
    ``x``; all but ``axis`` broadcast, along which the result is as long as ``indices``. Negative
    indices count from the end; IndexingError for one that is out of range."""
    if foreign:
        refuse("take_along_axis", foreign)
    op = "take_along_axis"
    x, indices = operands_of(op, "AA", x, indices)
    axis = axis_of(op, axis, x.shape)
    indices = in_range(op, indices, x.shape[axis], axis, x.shape)
    if x.ndim == indices.ndim:
        x, indices = _broadcast_except(op, axis, x, indices)
    return run(op, x, x._raw, indices._raw, axis)


def _broadcast_except(op: str, axis: int, x: Any, y: Any) -> tuple[Any, Any]:
    # Two arrays of as many axes, broadcast along all of them but one.
    before, after = slice(axis), slice(axis + 1, None)
    if x.shape[before] == y.shape[before] and x.shape[after] == y.shape[after]:
        return x, y
    single = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    other = tuple(1 if i == axis else n for i, n in enumerate(y.shape))
    try:
        common = rules.broadcast(op, single, other)
    except ShapeError:
        rules.fail(op, x=x.shape, indices=y.shape, why=f"all axes but {axis} must broadcast")
    wide = [(*common[before], a.shape[axis], *common[after]) for a in (x, y)]
    x, y = (
        a if a.shape == shape else run("broadcast_to", a, a._raw, shape)
        for a, shape in zip((x, y), wide)
    )
    return x, y


def one_hot(x: ArrayLike, classes: int, dtype: DType | str | None = None) -> Any:
    """Class numbers (...) as rows (..., classes) with a single 1, of the default floating dtype
    unless ``dtype`` is given. Raises IndexingError for one outside [0, classes)."""
    x = operand("one_hot", "A", x)
    classes = arguments.int_of("one_hot", classes, "classes")
    if x.dtype.is_integer and x.size and x._backend.has_values and classes >= 0:
        low, high = _extremes(x)
        if low < 0 or high >= classes:
            raise IndexingError(
                f"[one_hot] class {low if low < 0 else high} is outside the {classes} classes"
            )
    kind = dtypes.default_float() if dtype is None else dtypes.dtype(dtype)
    return run("one_hot", x, x._raw, classes, kind)


def embedding(weight: ArrayLike, indices: ArrayLike) -> Any:
    """Rows of ``weight`` (n, dim) at integer ``indices`` (...): shape (..., dim). Raises
    IndexingError for one outside [-n, n)."""
    weight, indices = operands_of("embedding", "AA", weight, indices)
    if weight.ndim == 2:
        indices = in_range("embedding", indices, weight.shape[0], 0, weight.shape)
    return run("embedding", weight, weight._raw, indices._raw)
