"""Checks of boxes, scores and labels that the functions of detection share."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_tensor.errors import NoDataError


def check_boxes(where: str, name: str, boxes: Any, axes: int | None = None) -> None:
    """Raise DTypeError unless `boxes` are a floating array, ShapeError unless the last axis has 4
    elements, and unless there are so many axes."""
    if not isinstance(boxes, ft.Array):
        raise ft.DTypeError(
            f"[{where}] {name} are a {type(boxes).__name__}: give an array; use ft.asarray"
        )
    if not boxes.dtype.is_floating:
        raise ft.DTypeError(f"[{where}] {name} are {boxes.dtype}: give floating boxes; use astype")
    if boxes.ndim < 1 or boxes.shape[-1] != 4 or (axes is not None and boxes.ndim != axes):
        expected = "(boxes, 4)" if axes == 2 else "(..., 4)"
        raise ft.ShapeError(f"[{where}] {name} {boxes.shape}: expected {expected}")


def host_values(where: str, name: str, x: Any, dtype: Any = None) -> np.ndarray:
    """The values of an array as a contiguous NumPy array. Raises DTypeError for no array of
    numbers, NoDataError on a backend without values."""
    if isinstance(x, ft.Array) and not x.backend.has_values:
        raise NoDataError(
            f"[{where}] {name} have no values here: they are read on the host, so a compiled step "
            "cannot contain this call; compile the model alone"
        )
    try:
        if isinstance(x, ft.Array):
            value = tensor_of(x)
            narrow = value.dtype.is_floating and value.dtype.itemsize < 4
            x = (value.astype(ft.float32) if narrow else value).numpy()
        found = np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, ft.FlError):
            raise
        raise ft.DTypeError(f"[{where}] {name} are no array of numbers: {error}") from error
    if found.dtype.kind not in "fiub":
        raise ft.DTypeError(f"[{where}] {name} are {found.dtype}: expected numbers")
    # Without the axis that ascontiguousarray adds to a number.
    return np.asarray(found, found.dtype if dtype is None else dtype, order="C")


def host_labels(where: str, name: str, labels: Any, count: int | None = None) -> np.ndarray:
    """Class numbers as int64 (N,). Raises DTypeError, ShapeError for others than `count`."""
    found = host_values(where, name, labels)
    if found.dtype.kind not in "iu" and found.size:
        raise ft.DTypeError(f"[{where}] {name} are {found.dtype}: give integers; use astype")
    if found.ndim != 1 or (count is not None and len(found) != count):
        expected = "(labels,)" if count is None else f"({count},), one for each box"
        raise ft.ShapeError(f"[{where}] {name} {found.shape}: expected {expected}")
    return found.astype(np.int64)


def refuse_bad_boxes(where: str, name: str, boxes: np.ndarray, side: str = "") -> None:
    """Raise ArgumentError, which names the first, for xyxy boxes (N, 4) that are NaN, infinite, or
    have a negative width or height."""
    bad = ~np.isfinite(boxes).all(axis=1)
    if not bad.any():
        bad = (boxes[:, 2] < boxes[:, 0]) | (boxes[:, 3] < boxes[:, 1])
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        shown = ", ".join(f"{v:g}" for v in boxes[index])
        raise ft.ArgumentError(
            f"[{where}] {name}: box {index} is ({shown}) as xyxy: expected finite numbers with "
            f"x1 <= x2 and y1 <= y2; remove such boxes, or convert them with box_convert{side}"
        )
