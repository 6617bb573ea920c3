"""Indexing and assignment by slice, reshape, gather, slice_update and scatter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

from fl_tensor import arguments, dtypes, rules
from fl_tensor.arrays.advanced_indexing import Place, parse, seen, whole_mask
from fl_tensor.arrays.value import ArrayValue
from fl_tensor.dispatch import frontend
from fl_tensor.errors import BackendError, DTypeError, IndexingError, ShapeError
from fl_tensor.functions import shaping

if TYPE_CHECKING:
    from fl_tensor.arrays.tensor import Tensor


def getitem(x: Any, index: Any) -> Any:
    """``x[index]`` as a value. Raises what ``places.parse`` raises."""
    if type(index) is int:
        place = seen("getitem", x.shape, (index,))
    elif isinstance(index, ArrayValue) and (mask := whole_mask("getitem", x, index)) is not None:
        rows, places = _flat(x), _true_places(mask)
        return frontend.run("gather", rows, rows._raw, _raw_index(x, places), 0)
    else:
        place = parse("getitem", x, index)
    starts, sizes, steps, _, shape, arrays, at, whole = place
    if len(arrays) > 1 or (arrays and at not in arrays):
        rows = shaping.reshape(x, _rows_shape(x, place))
        places = _row_numbers("getitem", x, place)
        return frontend.run("gather", rows, rows._raw, _raw_index(x, places), 0)
    plain = x._is_handle and frontend.layers() is None
    box, ops = x._raw, x._backend if plain else x._ops()
    if not whole:
        box = ops.slice(box, starts, sizes, steps)
    elif not arrays and shape == sizes:
        return frontend.same_value(x)
    if sizes != shape:
        most = x._backend.max_ndim if len(shape) > 32 else None
        if most is not None and len(shape) > most:
            raise ShapeError(f"[getitem] {len(shape)} axes: backend {x._backend.name!r} has {most}")
        box = ops.reshape(box, shape)
    for axis, indices in arrays.items():
        box = ops.gather(box, _raw_index(x, indices), axis)
    if not plain:
        return x._wrap(box)
    made = frontend.new(type(x))
    made._adapter = box
    made._backend = ops
    return made


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value``: the handle ``x`` gets a new value, in its storage if nobody else sees
    it. Raises ShapeError for a value that does not broadcast, and what ``places.parse`` raises."""
    if isinstance(index, ArrayValue) and (mask := whole_mask("setitem", x, index)) is not None:
        value = _operand(x, value)
        if value.size == 1:
            one = value._raw if not value.shape else shaping.reshape(value, ())._raw
            made = x._ops().where(mask._raw, one, x._raw)
            x._adapter = frontend.answer("where", x._backend, made)
        else:
            _write_rows(x, (x.size,), 0, _true_places(mask), value)
        return
    place = parse("setitem", x, index)
    value = _operand(x, value)
    if not place.arrays:
        _write_box(x, place, value)
    elif place.whole and len(place.arrays) == 1 and place.axes == tuple(range(x.ndim)):
        ((axis, indices),) = place.arrays.items()
        _write_rows(x, x.shape, axis, indices, value)
    else:
        _write_rows(x, _rows_shape(x, place), 0, _row_numbers("setitem", x, place), value)


def _true_places(mask: Tensor) -> Tensor:
    flat = _flat(mask)
    (places,) = frontend.run("nonzero", flat, flat._raw)
    return places


def _flat(x: Any) -> Any:
    shape = x.shape
    return x if len(shape) == 1 else frontend.run("reshape", x, x._raw, (math.prod(shape),))


def _operand(x: Tensor, value: Any) -> Tensor:
    if isinstance(value, arguments.SCALARS):
        return x._constant(arguments.scalar("setitem", value, x.dtype), x.dtype)
    if isinstance(value, ArrayValue) and value._priority > x._priority:
        holder = value._operand_class
        made = f"{holder.__module__.partition('.')[0]}.{holder.__name__}(ft.zeros({x.shape}))"
        raise DTypeError(
            f"[setitem] x is a {type(x).__name__} and cannot hold a {type(value).__name__}: begin "
            f"with x = {made}, which keeps what it is assigned"
        )
    return frontend.cast(frontend.operands_of("setitem", "AA", x, value)[1], x.dtype)


def _fit(x: Tensor, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    if value.shape == shape:
        return value
    # NumPy lets extra leading axes of size 1 pass in an assignment.
    given = value.shape
    extra = len(given) - len(shape)
    if extra > 0 and all(n == 1 for n in given[:extra]):
        value = shaping.reshape(value, given[extra:])
    try:
        fits = rules.broadcast("setitem", value.shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"[setitem] x {x.shape}: value {given} does not fit {shape}")
    return frontend.run("broadcast_to", value, value._raw, shape)


# The handle lets go of its value while that is written to: the backend then sees that nobody else
# holds it, and writes in place. What is written may be the value of x itself.


class _Away:
    """Stands in the handle meanwhile."""

    def __getattr__(self, name: str) -> NoReturn:
        raise BackendError(
            "this tensor is being assigned to, by another thread or from inside an override: "
            "read it before, or from a handle of its own (x.copy())"
        )


_AWAY: Any = _Away()


def _taken(x: Tensor) -> Any:
    # The value, out of the handle.
    x._adapter.dtype  # noqa: B018 - says so where it is away already
    adapter, x._adapter = x._adapter, _AWAY
    return adapter


def _write_box(x: Tensor, place: Place, value: Tensor) -> None:
    ops, sizes = x._ops(), place.sizes
    updates = value._raw
    if updates.shape:
        updates = _fit(x, value, place.shape)._raw
    elif math.prod(sizes) != 1:
        updates = ops.broadcast_to(updates, sizes)
    if updates.shape != sizes:
        updates = ops.reshape(updates, sizes)
    adapter = _taken(x)
    try:
        made = ops.slice_update(adapter, place.starts, place.steps, updates, donate=True)
        adapter = frontend.answer("slice_update", x._backend, made)
    finally:
        x._adapter = adapter


def _write_rows(
    x: Tensor, rows: tuple[int, ...], axis: int, indices: Tensor, value: Tensor
) -> None:
    # Along ``axis`` of x, seen in the shape ``rows``.
    ops, shape = x._ops(), x.shape
    updates = _fit(x, value, (*rows[:axis], *indices.shape, *rows[axis + 1 :]))._raw
    if 0 in updates.shape:
        return
    adapter = _taken(x)
    try:
        if rows != shape:
            adapter = ops.reshape(adapter, rows)
        made = ops.scatter(adapter, indices._raw, updates, axis, "set", donate=True)
        adapter = frontend.answer("scatter", x._backend, made)
    finally:
        x._adapter = adapter if rows == shape else ops.reshape(adapter, shape)


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


def _row_numbers(op: str, x: Any, place: Place) -> Tensor:
    """Which rows the index means, int64: the axes of the index arrays, and before and behind them
    those that are sliced or new. IndexingError for arrays that do not broadcast together."""
    within = _row_axes(x, place)
    head = x.shape[: x.ndim - within]
    strides = [math.prod(head[axis + 1 :]) for axis in range(len(head))]
    others = [a for i, a in enumerate(place.axes) if i not in place.arrays]
    others = others[: len(others) - within]
    shape = [1 if a is None else place.sizes[a] for a in others]
    picked = _common_shape(op, place)
    before, behind = place.at, len(shape) - place.at
    shape[before:before] = picked
    first: Tensor = next(iter(place.arrays.values()))
    ops, device = first._ops(), x.device
    if 0 in shape:
        return first._wrap(ops.full(tuple(shape), 0, dtypes.int64, device))
    total: Any = None
    for position, indices in place.arrays.items():
        axis = place.axes[position]
        part = frontend.cast(indices, dtypes.int64)._raw
        if axis is not None and strides[axis] != 1:
            part = ops.multiply(part, ops.scalar(strides[axis], dtypes.int64, device))
        total = part if total is None else ops.add(total, part)
    dropped = [a for a in range(len(head)) if a not in place.axes]
    if offset := sum(place.starts[a] * strides[a] for a in dropped):
        total = ops.add(total, ops.scalar(offset, dtypes.int64, device))
    if behind:
        total = ops.reshape(total, (*total.shape, *[1] * behind))
    for i, axis in enumerate(others):
        if axis is not None:
            step = place.steps[axis] * strides[axis]
            start = place.starts[axis] * strides[axis]
            along = ops.arange(start, start + place.sizes[axis] * step, step, dtypes.int64, device)
            after = len(others) - 1 - i + (len(picked) if i < before else 0)
            total = ops.add(total, ops.reshape(along, (*along.shape, *[1] * after)))
    if total.shape != tuple(shape):
        total = ops.broadcast_to(total, tuple(shape))
    return first._wrap(total)


def _common_shape(op: str, place: Place) -> tuple[int, ...]:
    shape: tuple[int, ...] = ()
    try:
        for indices in place.arrays.values():
            shape = rules.broadcast(op, shape, indices.shape)
    except ShapeError:
        shapes = ", ".join(str(a.shape) for a in place.arrays.values())
        raise IndexingError(f"[{op}] index arrays {shapes} do not broadcast") from None
    return shape


def _raw_index(x: Any, indices: Tensor) -> Any:
    return (indices if type(indices) is type(x) else x._lift(indices))._raw
