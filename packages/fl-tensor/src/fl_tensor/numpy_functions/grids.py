"""NumPy's objects with square brackets: ``mgrid``, ``ogrid``, ``r_``, ``c_``, ``s_``."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor import dtypes
from fl_tensor.arguments import SCALARS
from fl_tensor.numpy_functions.creating import ix_
from fl_tensor.numpy_functions.joining import concat
from fl_tensor.numpy_functions.operands import together

__all__ = ["c_", "index_exp", "mgrid", "ogrid", "r_", "s_"]


def _line(index: slice, like: Any = None) -> Any:
    # start:stop:step as arange; with a step of nj as linspace. On the backend of ``like``.
    start = 0 if index.start is None else index.start
    step = 1 if index.step is None else index.step
    if index.stop is None:
        raise ft.ArgumentError(f"[grid] {index.start}:: has no end: write start:stop:step")
    if isinstance(step, complex):
        return ft.linspace(start, index.stop, int(abs(step)), **_place(like))
    return ft.arange(start, index.stop, step, **_place(like))


def _place(like: Any) -> dict[str, Any]:
    return {} if like is None else {"device": like.device, "backend": like.backend}


class _Grid:
    """``grid[0:2, 0:1:5j]``: coordinates of the grid that the slices span. A step of nj is a number
    of points, the end included."""

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _line(index)
        lines = [_line(each) for each in index]
        floating = [line.dtype for line in lines if line.dtype.is_floating]
        lines = [line.astype(floating[0] if floating else line.dtype) for line in lines]
        if self._sparse:
            return ix_(*lines)
        return ft.stack(ft.meshgrid(*lines, indexing="ij"), 0)


class _Joined:
    """``r_[0:3, 7, x]``: slices, numbers and arrays, joined along an axis. Vectors are put in with
    at least ``ndmin`` axes, as columns. Numbers are weak beside the others."""

    def __init__(self, axis: int, ndmin: int) -> None:
        self._axis, self._ndmin = axis, ndmin

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        for each in index:
            if each is None or isinstance(each, str):
                raise ft.ArgumentError(
                    f"[r_] {each!r}: expected slices, numbers and arrays; for another axis use "
                    f"ft.concatenate(xs, axis)"
                )
        given = together("r_", *[None if isinstance(each, slice) else each for each in index])
        lead = next((x for x in given if isinstance(x, ft.Array)), None)
        parts = [_line(i, lead) if isinstance(i, slice) else x for i, x in zip(index, given)]
        kind = _common(parts)
        place = _place(lead)
        made = [
            ft.asarray(p, kind, **place) if isinstance(p, SCALARS) else ft.cast(p, kind)
            for p in parts
        ]
        return concat([self._column(part) for part in made], self._axis)

    def _column(self, part: Any) -> Any:
        part = part if part.ndim else part.reshape(1)
        return part if part.ndim >= self._ndmin else part.reshape(-1, 1)


def _common(parts: list[Any]) -> ft.DType:
    numbers = [x for x in parts if isinstance(x, SCALARS)]
    kinds = [x.dtype for x in parts if isinstance(x, ft.Array)]
    kinds = [kind for kind in kinds if kind is not dtypes.bool] or kinds
    return ft.result_type(*(kinds or map(dtypes.of_number, map(type, numbers))), *numbers)


class _Index:
    """``s_[1:, ...]``: the index itself, to be kept and used later."""

    def __init__(self, is_tuple: bool) -> None:
        self._is_tuple = is_tuple

    def __getitem__(self, index: Any) -> Any:
        return (index,) if self._is_tuple and not isinstance(index, tuple) else index


mgrid, ogrid = _Grid(sparse=False), _Grid(sparse=True)
r_, c_ = _Joined(axis=0, ndmin=1), _Joined(axis=-1, ndmin=2)
s_, index_exp = _Index(is_tuple=False), _Index(is_tuple=True)
