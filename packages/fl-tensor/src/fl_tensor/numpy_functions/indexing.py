"""Elements by place and by condition.

NumPy's functions that write into their operand return a new array here; the operand stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.arguments import axis_of
from fl_tensor.dispatch.frontend import ArrayLike, cast, operand, operands_of, prepare_all
from fl_tensor.graph.ir import Graph, Value
from fl_tensor.numpy_functions.shaping import ravel

__all__ = [
    "apply_along_axis",
    "apply_over_axes",
    "choose",
    "compress",
    "extract",
    "fill_diagonal",
    "flatnonzero",
    "piecewise",
    "place",
    "put",
    "put_along_axis",
    "putmask",
    "ravel_multi_index",
    "select",
    "unravel_index",
]

_MODES = ("raise", "wrap", "clip")

# ---- places --------------------------------------------------------------------------------------


def flatnonzero(x: ArrayLike) -> Any:
    """Places in C order of the elements that are not zero, int64."""
    (found,) = ft.nonzero(ravel(x))
    return found


def unravel_index(indices: ArrayLike, shape: int | Sequence[int]) -> tuple[Any, ...]:
    """Places in C order of an array of this shape as an index along each axis. IndexingError for a
    place that is out of range."""
    sizes = arguments.shape_of("unravel_index", shape)
    rest = _valid(
        "unravel_index", operand("unravel_index", "Z", indices), math.prod(sizes), "raise"
    )
    found = []
    for size in reversed(sizes):
        found.append(ft.remainder(rest, size))
        rest = ft.floor_divide(rest, size)
    return tuple(reversed(found))


def ravel_multi_index(
    indices: Sequence[ArrayLike], shape: Sequence[int], mode: str | Sequence[str] = "raise"
) -> Any:
    """The places in C order of an array of this shape that have these indices along its axes.
    ``mode`` (one, or one for each axis) says what becomes of an index that is out of range:
    IndexingError, ``"wrap"`` around, ``"clip"`` to the range."""
    op = "ravel_multi_index"
    sizes = arguments.shape_of(op, shape)
    given = prepare_all(op, "A", _several(op, indices, "indices"))
    modes: tuple[Any, ...] = (mode,) * len(sizes) if arguments.is_single(mode) else tuple(mode)
    if not len(given) == len(sizes) == len(modes):
        raise ft.ShapeError(f"[{op}] {len(given)} indices for the shape {sizes}")
    place: Any = 0
    for index, size, each in zip(given, sizes, modes):
        place = place * size + _valid(op, index, size, each)
    return place


def _valid(op: str, indices: Any, size: int, mode: str) -> Any:
    # int64, in [0, size).
    mode = arguments.choice_of(op, mode, "mode", _MODES)
    if not indices.dtype.is_integer:
        raise ft.DTypeError(f"[{op}] indices are {indices.dtype}: expected integers")
    indices = cast(indices, dtypes.int64)
    if mode != "raise":
        return ft.remainder(indices, size) if mode == "wrap" else ft.clip(indices, 0, size - 1)
    wrong = (indices < 0) | (indices >= size)
    if indices.backend.has_values and ft.any(wrong).item():
        bad = indices[wrong].tolist()[0] if indices.ndim else indices.item()
        raise ft.IndexingError(f"[{op}] index {bad} is out of range for {size} elements")
    return indices


# ---- writing -------------------------------------------------------------------------------------


def put_along_axis(x: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None) -> Any:
    """``x`` with ``values`` where ``take_along_axis(x, indices, axis)`` reads; a new array. Values
    broadcast to the indices, and these along all axes but ``axis``; None takes C order."""
    op = "put_along_axis"
    x, indices, values = operands_of(op, "AAA", x, indices, values)
    if axis is None:
        return ft.reshape(put_along_axis(ravel(x), ravel(indices), values, 0), x.shape)
    at = axis_of(op, axis, x.shape)
    if indices.ndim != x.ndim:
        raise ft.ShapeError(f"[{op}] x {x.shape} and indices {indices.shape}: as many axes needed")
    index = [
        indices
        if i == at
        else ft.reshape(
            ft.arange(n, device=x.device, backend=x.backend),
            [-1 if j == i else 1 for j in range(x.ndim)],
        )
        for i, n in enumerate(x.shape)
    ]
    return _written(x, tuple(index), values)


def put(x: ArrayLike, indices: ArrayLike, values: ArrayLike, mode: str = "raise") -> Any:
    """``x`` with ``values``, repeated as often as needed, at these places in C order; a new array.
    ``mode`` as in ``ravel_multi_index``; with ``"raise"`` negative places count from the end."""
    x, indices, values = operands_of("put", "AAA", x, indices, values)
    places = ravel(indices)
    if mode == "raise":
        places = ft.where(places < 0, places + x.size, places)
    places = _valid("put", places, x.size, mode)
    return ft.reshape(_written(ravel(x), (places,), _repeated(values, places.size)), x.shape)


def putmask(x: ArrayLike, mask: ArrayLike, values: ArrayLike) -> Any:
    """``x`` with ``values`` where ``mask``, of the size of ``x``, is True; a new array. Values of
    another size are repeated in C order until they fill it; without values nothing changes."""
    x, mask, values = operands_of("putmask", "AAA", x, mask, values)
    mask = _of_size("putmask", _mask("putmask", mask), x)
    return ft.where(mask, cast(ft.resize(values, x.shape), x.dtype), x) if values.size else x.copy()


def place(x: ArrayLike, mask: ArrayLike, values: ArrayLike) -> Any:
    """``x`` with the first elements of ``values``, repeated as often as needed, at the places where
    ``mask`` is True in C order; a new array."""
    x, mask, values = operands_of("place", "AAA", x, mask, values)
    places = flatnonzero(_of_size("place", mask, x))
    return ft.reshape(_written(ravel(x), (places,), _repeated(values, places.size)), x.shape)


def _of_size(op: str, mask: Any, x: Any) -> Any:
    if mask.size != x.size:
        raise ft.ShapeError(f"[{op}] x {x.shape} and mask {mask.shape}: sizes differ")
    return ft.reshape(mask, x.shape)


def fill_diagonal(x: ArrayLike, value: ArrayLike, wrap: bool = False) -> Any:
    """``x`` with ``value``, or the elements of a vector of them, on its main diagonal; a new array.
    With ``wrap`` the diagonal of a tall matrix starts again below, after an empty row. Raises
    ShapeError unless ``x`` is a matrix or its axes have one size."""
    x, value = operands_of("fill_diagonal", "AA", x, value)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) != 1):
        raise ft.ShapeError(f"[fill_diagonal] x {x.shape}: expected a matrix, or axes of one size")
    step = sum(math.prod(x.shape[i + 1 :]) for i in range(x.ndim))
    end = x.size if wrap or x.ndim > 2 else x.shape[1] * x.shape[1]
    places = ft.arange(0, min(end, x.size), step, device=x.device, backend=x.backend)
    return ft.reshape(_written(ravel(x), (places,), _repeated(value, places.size)), x.shape)


def _written(x: Any, index: Any, values: Any) -> Any:
    made = x.copy()
    made[index] = values
    return made


def _repeated(values: Any, count: int) -> Any:
    # As many elements as asked for, repeated in C order.
    flat = ravel(values)
    if flat.size == 0 and count:
        raise ft.ArgumentError(f"[put] no values for {count} places")
    return flat if flat.size in (1, count) else ft.resize(flat, count)


def _mask(op: str, condition: ArrayLike) -> Any:
    condition = operand(op, "A", condition)
    return condition if condition.dtype is dtypes.bool else condition != 0


# ---- choosing ------------------------------------------------------------------------------------


def extract(
    condition: ArrayLike | Graph,
    x: ArrayLike | None = None,
    *,
    feeds: Iterable[str | Value] = (),
    fetches: Iterable[str | Value] = (),
) -> Any:
    """The elements of ``x`` in C order where ``condition`` is not zero. Of a graph,
    ``ft.extract(graph, feeds=..., fetches=...)`` is ``graph.extract(feeds, fetches)``: the part
    that computes ``fetches`` from ``feeds``."""
    if isinstance(condition, Graph):
        return condition.extract(feeds, fetches)
    if x is None:
        raise ft.DTypeError("[extract] x is None: expected an array, or a graph for the condition")
    condition, x = operands_of("extract", "AA", condition, x)
    return ft.take(x, flatnonzero(condition))


def compress(condition: ArrayLike, x: ArrayLike, axis: int | None = None) -> Any:
    """The slices of ``x`` along ``axis`` (elements in C order without one) where the vector
    ``condition``, which may be shorter, is not zero."""
    condition, x = operands_of("compress", "AA", condition, x)
    if condition.ndim != 1:
        raise ft.ShapeError(f"[compress] condition {condition.shape}: expected a vector")
    return ft.take(x, flatnonzero(condition), axis)


def select(
    conditions: Sequence[ArrayLike], choices: Sequence[ArrayLike], default: ArrayLike = 0
) -> Any:
    """The element of the first of ``choices`` whose condition (bool) holds, else ``default``; all
    broadcast."""
    masks = _several("select", conditions, "conditions")
    parts = _several("select", choices, "choices")
    count = len(masks)
    if not count or count != len(parts):
        raise ft.ArgumentError(f"[select] {count} conditions, {len(parts)} choices")
    roles = "A" * count + "P" * (count + 1)
    *given, made = operands_of("select", roles, *masks, *parts, default)
    for condition, part in zip(reversed(given[:count]), reversed(given[count:])):
        made = ft.where(condition, part, made)
    return made


def _several(op: str, xs: Any, name: str) -> list[Any]:
    return arguments.several_of(op, xs, name, object, "a list of arrays")


def choose(x: ArrayLike, choices: Sequence[ArrayLike] | ArrayLike, mode: str = "raise") -> Any:
    """The elements of ``choices`` whose numbers are in ``x``; all broadcast. ``mode`` as in
    ``ravel_multi_index``."""
    given = _several("choose", choices, "choices")
    x, *parts = operands_of("choose", "A" + "P" * len(given), x, *given)
    index = _valid("choose", x, len(parts), mode)
    parts = ft.broadcast_arrays(*parts)
    shape = ft.broadcast_shapes(index.shape, parts[0].shape)
    parts = [ft.broadcast_to(part, shape) for part in parts]
    rows = ft.expand_dims(ft.broadcast_to(index, shape), 0)
    return ft.squeeze(ft.take_along_axis(ft.stack(parts, 0), rows, 0), 0)


def piecewise(
    x: ArrayLike,
    conditions: Sequence[ArrayLike],
    functions: Sequence[Callable[..., Any] | complex],
    *args: Any,
    **options: Any,
) -> Any:
    """For each condition its function of the elements of ``x`` where it holds, or its number; of
    several that hold the last. One more function is for all other elements, which are else 0.

    A function gets a vector of these elements, if there are any, then ``args`` and ``options``. The
    result has the dtype of ``x``.
    """
    given = conditions if isinstance(conditions, (list, tuple)) else [conditions]
    x, *masks = prepare_all("piecewise", "A", [x, *given])
    masks = [ft.broadcast_to(_mask("piecewise", c), x.shape) for c in masks]
    if len(functions) not in (len(masks), len(masks) + 1):
        raise ft.ArgumentError(f"[piecewise] {len(functions)} functions, {len(masks)} conditions")
    rest = ft.logical_not(ft.any(ft.stack(masks, 0), 0))
    pairs = list(zip([*masks, rest], [*functions, *[0] * (len(masks) + 1 - len(functions))]))
    flat = made = ravel(x)
    for mask, function in pairs:
        places = flatnonzero(mask)
        if not places.size:
            continue
        part = function(flat[places], *args, **options) if callable(function) else function
        made = _written(made, (places,), part)
    return ft.reshape(made, x.shape)


# ---- functions of slices -------------------------------------------------------------------------


def apply_along_axis(
    function: Callable[..., Any], axis: int, x: ArrayLike, *args: Any, **options: Any
) -> Any:
    """``function`` of every vector along ``axis``, which the shape of its result replaces. One call
    for each vector; a function of whole arrays with an axis is much faster."""
    arguments.function_of("apply_along_axis", function)
    x = operand("apply_along_axis", "A", x)
    at = axis_of("apply_along_axis", axis, x.shape)
    last = ft.moveaxis(x, at, -1)
    lead = last.shape[:-1]
    if math.prod(lead) == 0:
        raise ft.ShapeError(f"[apply_along_axis] x {x.shape}: there is no vector along axis {at}")
    rows = ft.unstack(ft.reshape(last, (-1, last.shape[-1])), 0)
    parts = [operand("apply_along_axis", "A", function(row, *args, **options)) for row in rows]
    made = ft.reshape(ft.stack(parts, 0), (*lead, *parts[0].shape))
    new = range(len(lead), made.ndim)
    return ft.moveaxis(made, list(new), [at + i for i in range(len(new))])


def apply_over_axes(function: Callable[..., Any], x: ArrayLike, axes: int | Sequence[int]) -> Any:
    """``function(x, axis)`` applied for one axis after the other; an axis that it takes away stays
    with size 1."""
    arguments.function_of("apply_over_axes", function)
    x = operand("apply_over_axes", "A", x)
    for axis in arguments.ints_of("apply_over_axes", axes, "axes"):
        at = axis_of("apply_over_axes", axis, x.shape)
        made = function(x, at)
        x = made if made.ndim == x.ndim else ft.expand_dims(made, at)
    return x
