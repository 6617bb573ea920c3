"""Getting and setting elements, in terms of slice, reshape, gather, slice_update and scatter."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import arguments, dtypes, frontend, functions, rules, special
from fl_tensor.array import Array
from fl_tensor.creation import full
from fl_tensor.errors import DTypeError, IndexingError, ShapeError
from fl_tensor.places import Place, parse, whole_mask
from fl_tensor.tensor import Tensor


def getitem(x: Any, index: Any) -> Any:
    """``x[index]`` as a value. Raises what ``places.parse`` raises."""
    if isinstance(index, Array) and (mask := whole_mask("getitem", x, index)) is not None:
        flat, (places,) = special.reshape(x, (-1,)), special.nonzero(special.reshape(mask, (-1,)))
        return frontend.run("gather", flat, flat._raw, _raw_index(x, places), 0)
    place = parse("getitem", x, index)
    if len(place.arrays) > 1 or (place.arrays and place.at not in place.arrays):
        rows = special.reshape(x, _rows_shape(x, place))
        places = _row_numbers("getitem", x, place)
        return frontend.run("gather", rows, rows._raw, _raw_index(x, places), 0)
    box, ops, shape = x._raw, x._ops(), place.shape
    if not place.whole:
        box = ops.slice(box, place.starts, place.sizes, place.steps)
    elif not place.arrays and shape == x.shape:
        return frontend.same_value(x)
    if box.shape != shape:
        box = ops.reshape(box, shape)
    for axis, indices in place.arrays.items():
        box = ops.gather(box, _raw_index(x, indices), axis)
    return x._wrap(box)


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value``: the handle ``x`` gets a new value, in its storage if nobody else sees
    it. Raises ShapeError for a value that does not broadcast, and what ``places.parse`` raises."""
    mask = whole_mask("setitem", x, index)
    place = parse("setitem", x, index) if mask is None else None
    value = frontend.cast(_operand(x, value), x.dtype)
    if mask is not None and value.size == 1:
        x._adapter = special.where(mask, special.reshape(value, ()), x)._adapter
        return
    if place is None:
        place = parse("setitem", x, index)
    if not place.arrays:
        value = special.reshape(_fit(value, place.shape, x), place.sizes)
        _write_box(x, place, value._raw)
    elif place.whole and len(place.arrays) == 1 and place.axes == tuple(range(x.ndim)):
        ((axis, indices),) = place.arrays.items()
        value = _fit(value, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x)
        _write_rows(x, x.shape, axis, indices._raw, value._raw)
    else:
        indices, rows = _row_numbers("setitem", x, place), _rows_shape(x, place)
        value = _fit(value, (*indices.shape, *rows[1:]), x)
        if value.size:
            _write_rows(x, rows, 0, indices._raw, value._raw)


# The handle lets go of its value while that is written to: the backend then sees that nobody else
# holds it, and writes in place. ``value`` may be that of x itself.


def _write_box(x: Tensor, place: Place, value: Any) -> None:
    adapter, x._adapter = x._raw, None  # type: ignore[assignment]
    try:
        adapter = x._ops().slice_update(adapter, place.starts, place.steps, value, donate=True)
    finally:
        x._adapter = adapter


def _write_rows(x: Tensor, rows: tuple[int, ...], axis: int, indices: Any, value: Any) -> None:
    ops, shape = x._ops(), x.shape
    adapter, x._adapter = x._raw, None  # type: ignore[assignment]
    try:
        if rows != shape:
            adapter = ops.reshape(adapter, rows)
        adapter = ops.scatter(adapter, indices, value, axis, "set", donate=True)
    finally:
        x._adapter = adapter if rows == shape else ops.reshape(adapter, shape)


def _operand(x: Tensor, value: Any) -> Any:
    if isinstance(value, arguments.SCALARS):
        return x._constant(arguments.scalar("setitem", value, x.dtype), x.dtype)
    if isinstance(value, Array) and value._priority > x._priority:
        raise DTypeError(
            f"[setitem] x is a {type(x).__name__} and cannot hold a {type(value).__name__}: assign "
            f"its value as a {type(x).__name__}"
        )
    return frontend.operands_of("setitem", "AA", x, value)[1]


def _fit(value: Any, shape: tuple[int, ...], x: Tensor) -> Any:
    if value.shape == shape:
        return value
    # NumPy lets extra leading axes of size 1 pass in an assignment.
    given = value.shape
    extra = len(given) - len(shape)
    if extra > 0 and all(n == 1 for n in given[:extra]):
        value = special.reshape(value, given[extra:])
    try:
        fits = rules.broadcast("setitem", value.shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"[setitem] x {x.shape}: value {given} does not fit {shape}")
    return frontend.run("broadcast_to", value, value._raw, shape)


# ---- several index arrays: they mean rows of x, a row being the last axes, those taken whole -----


def _row_axes(x: Any, place: Place) -> int:
    # How many axes of x make a row: the last ones, if they are whole and the last of the box, too.
    count = 0
    for axis, position in zip(range(x.ndim - 1, -1, -1), range(len(place.axes) - 1, -1, -1)):
        whole = place.sizes[axis] == x.shape[axis] and place.steps[axis] == 1
        if not whole or place.axes[position] != axis or position in place.arrays:
            break
        count += 1
    return count


def _rows_shape(x: Any, place: Place) -> tuple[int, ...]:
    head = x.ndim - _row_axes(x, place)
    return (math.prod(x.shape[:head]), *x.shape[head:])


def _row_numbers(op: str, x: Any, place: Place) -> Any:
    """Which rows the index means, int64: the axes of the index arrays, and before and behind them
    those that are sliced or new. IndexingError for arrays that do not broadcast together."""
    within = _row_axes(x, place)
    head = x.shape[: x.ndim - within]
    strides = [math.prod(head[axis + 1 :]) for axis in range(len(head))]
    numbers = _picked(op, place, strides)
    others = [a for i, a in enumerate(place.axes) if i not in place.arrays]
    others = others[: len(others) - within]
    shape = [1 if a is None else place.sizes[a] for a in others]
    count, behind = numbers.ndim, len(shape) - place.at
    shape[place.at : place.at] = numbers.shape
    if 0 in shape:
        return full(shape, 0, dtypes.int64, x.device, x._backend)
    dropped = [a for a in range(len(head)) if a not in place.axes]
    offset = sum(place.starts[a] * strides[a] for a in dropped)
    numbers = special.reshape(numbers, (*numbers.shape, *[1] * behind))
    if offset:
        numbers = functions.add(numbers, offset)
    for i, axis in enumerate(others):
        if axis is not None:
            stride, step = strides[axis], place.steps[axis]
            first = place.starts[axis] * stride
            last = first + place.sizes[axis] * step * stride
            along = x._backend.arange(first, last, step * stride, dtypes.int64, x.device)
            after = len(others) - 1 - i + (count if i < place.at else 0)
            along = special.reshape(Tensor(along, x._backend), (-1, *[1] * after))
            numbers = functions.add(numbers, along)
    return frontend.run("broadcast_to", numbers, numbers._raw, tuple(shape))


def _picked(op: str, place: Place, strides: list[int]) -> Any:
    # What the index arrays add to the number of a row.
    total: Any = None
    for position, indices in place.arrays.items():
        axis = place.axes[position]
        part = frontend.cast(indices, dtypes.int64)
        if axis is not None and strides[axis] != 1:
            part = functions.multiply(part, strides[axis])
        try:
            total = part if total is None else functions.add(total, part)
        except ShapeError:
            shapes = ", ".join(str(a.shape) for a in place.arrays.values())
            raise IndexingError(f"[{op}] index arrays {shapes} do not broadcast") from None
    return total


def _raw_index(x: Any, indices: Any) -> Any:
    return (indices if type(indices) is type(x) else x._lift(indices))._raw
