"""NumPy's indexing, basic and advanced, in terms of slice, reshape, permute, gather and scatter."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from fl_tensor import arguments, dtypes, frontend, functions, rules, special
from fl_tensor.array import Array
from fl_tensor.errors import DTypeError, IndexingError, ShapeError

if TYPE_CHECKING:
    from fl_tensor.tensor import Tensor


class _Place(NamedTuple):
    """What an index reads of x: a strided box, of which ``dropped`` axes vanish, then ``new`` axes
    of size 1 appear (positions in the result), then ``arrays`` pick along axes (of that result);
    ``together`` unless something stands between these in the index."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    arrays: dict[int, Any]
    together: bool = True


class _MaskAxis(NamedTuple):
    """Where a boolean array is true along one of its axes, and the size of that axis."""

    indices: Any
    size: int


def getitem(x: Any, index: Any) -> Any:
    """``x[index]`` as a value. Raises IndexingError, or DTypeError for an index of the wrong
    kind."""
    mask = _whole_mask(x, index)
    if mask is not None:
        return _take(x, dict(enumerate(special.nonzero(mask))), True)
    place = _parse(x, index)
    whole = place.sizes == x.shape and all(s == 1 for s in place.steps)
    if not whole:
        x = frontend.run("slice", x, x._raw, place.starts, place.sizes, place.steps)
    if x.shape != place.shape:
        x = special.reshape(x, place.shape)
    elif whole and not place.arrays:
        x = frontend.same_value(x)
    return _take(x, place.arrays, place.together) if place.arrays else x


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value``: the handle ``x`` gets a new value, in its storage if nobody else sees
    it."""
    value = frontend.cast(_operand(x, value), x.dtype)
    mask = _whole_mask(x, index)
    if mask is not None and value.size == 1:
        x._adapter = special.where(mask, special.reshape(value, ()), x)._adapter
        return
    place = None if mask is not None else _parse(x, index)
    if place is not None and not place.arrays:
        value = _fit(value, place.shape, x, index)
        updates = special.reshape(value, place.sizes)._raw  # may be the value of x itself
        adapter, x._adapter = x._adapter, None  # type: ignore[assignment]
        try:
            x._adapter = x._ops().slice_update(
                adapter, place.starts, place.steps, updates, donate=True
            )
        except BaseException:
            x._adapter = adapter
            raise
        return
    numbers = _positions(x)
    targets = getitem(special.reshape(numbers, x.shape), index)
    value = _fit(value, targets.shape, x, index)
    flat = special.reshape(x, (-1,))
    x._adapter = special.reshape(special.scatter(flat, targets, value), x.shape)._adapter


def _positions(x: Tensor) -> Any:
    from fl_tensor.tensor import Tensor

    ops = x._ops()
    return Tensor(ops.arange(0, x.size, 1, dtypes.int64, x.device), x._backend)


def _operand(x: Tensor, value: Any) -> Any:
    if isinstance(value, arguments.SCALARS):
        return x._constant(arguments.scalar("setitem", value, x.dtype), x.dtype)
    if isinstance(value, Array) and value._priority > x._priority:
        raise DTypeError(
            f"[setitem] x is a {type(x).__name__} and cannot hold a {type(value).__name__}: assign "
            f"its value as a {type(x).__name__}"
        )
    return frontend.operands_of("setitem", "AA", x, value)[1]


def _fit(value: Any, shape: tuple[int, ...], x: Tensor, index: Any) -> Any:
    # NumPy lets extra leading axes of size 1 pass in an assignment.
    extra = value.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in value.shape[:extra]):
        value = special.reshape(value, value.shape[extra:])
    try:
        fits = rules.broadcast("setitem", value.shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"[setitem] x {x.shape}: value {value.shape} does not fit {shape}")
    if value.shape == shape:
        return value
    return frontend.run("broadcast_to", value, value._raw, shape)


def _whole_mask(x: Any, index: Any) -> Any:
    # A boolean array of x's own shape: the common case, and the only index a 0-d array takes.
    if isinstance(index, Array) and index.dtype is dtypes.bool and index.shape == x.shape:
        return index._tensor() if x.shape else None
    return None


def _parse(x: Any, index: Any) -> _Place:
    items, together = _expand(x, list(index) if isinstance(index, tuple) else [index])
    starts: list[int] = []
    sizes: list[int] = []
    steps: list[int] = []
    shape: list[int] = []
    arrays: dict[int, Any] = {}
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(item, slice):
            start, count, step = _slice(item, size)
            starts.append(start)
            sizes.append(count)
            steps.append(step)
            shape.append(count)
        elif isinstance(item, (Array, _MaskAxis)):
            starts.append(0)
            sizes.append(size)
            steps.append(1)
            arrays[len(shape)] = _checked(x, item, axis)
            shape.append(size)
        else:
            number = item + size if item < 0 else item
            if not 0 <= number < size:
                raise IndexingError(
                    f"[getitem] x {x.shape}: index {item} is out of range for axis {axis} of {size}"
                )
            starts.append(number)
            sizes.append(1)
            steps.append(1)
        axis += 1
    return _Place(tuple(starts), tuple(sizes), tuple(steps), tuple(shape), arrays, together)


def _checked(x: Any, item: Array | _MaskAxis, axis: int) -> Any:
    size = x.shape[axis]
    if isinstance(item, Array):
        return special.in_range("getitem", item, size, axis, x.shape)
    if item.size != size:
        raise IndexingError(
            f"[getitem] x {x.shape}: a mask of {item.size} stands for axis {axis} of {size}"
        )
    return item.indices


def _expand(x: Any, items: list[Any]) -> tuple[list[Any], bool]:
    # Every item becomes an int, slice, None or integer array, and all axes are named; and whether
    # the arrays stand side by side (even an ellipsis for no axis parts them).
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexingError("[getitem] an index may have one ellipsis ('...') only")
    found: list[Any] = []
    for item in items:
        found.extend([item] if item is Ellipsis else _item(x, item))
    if any(isinstance(i, (Array, _MaskAxis)) for i in found):
        # Beside index arrays an int is an array, too: it broadcasts with them.
        found = [_number(x, i) if isinstance(i, int) else i for i in found]
    named = sum(i is not None and i is not Ellipsis for i in found)
    if named > x.ndim:
        raise IndexingError(f"[getitem] x {x.shape}: {named} indices for {x.ndim} axes")
    rest = [slice(None)] * (x.ndim - named)
    at = next((i for i, item in enumerate(found) if item is Ellipsis), len(found))
    picks = [i for i, item in enumerate(found) if isinstance(item, (Array, _MaskAxis))]
    together = not picks or picks[-1] - picks[0] == len(picks) - 1
    return found[:at] + rest + found[at + 1 :], together


def _item(x: Any, item: Any) -> list[Any]:
    if item is None or isinstance(item, slice):
        return [item]
    if isinstance(item, bool):
        raise DTypeError("[getitem] a single bool is no index; use x[None] or a mask")
    if isinstance(item, Array) and not item.shape and item.dtype.is_integer:
        return [operator.index(item)]
    if not isinstance(item, Array):
        try:
            return [operator.index(item)]
        except TypeError:
            item = _as_index(x, item)
    item = item._tensor()
    if item.dtype is dtypes.bool:
        if not item.shape:
            raise DTypeError("[getitem] a single bool is no index; use x[None] or a mask")
        return [_MaskAxis(i, n) for i, n in zip(special.nonzero(item), item.shape, strict=True)]
    if not item.dtype.is_integer:
        raise DTypeError(f"[getitem] an index array is {item.dtype}: expected integers or bools")
    return [item]


def _as_index(x: Any, item: Any) -> Any:
    from fl_tensor.creation import asarray

    if isinstance(item, (str, bytes, float, complex)):
        raise IndexingError(
            f"[getitem] a {type(item).__name__} is no index: expected ints, slices, None, '...', "
            f"or arrays of integers or bools"
        )
    made = asarray(item, backend=x._backend)
    return made.astype(dtypes.int64) if made.size == 0 else made


def _number(x: Any, value: int) -> Any:
    from fl_tensor.creation import full

    return full((), value, dtypes.int64, x.device, x._backend)


def _slice(item: slice, size: int) -> tuple[int, int, int]:
    try:
        start, stop, step = item.indices(size)
    except ValueError as error:
        raise IndexingError(f"[getitem] {item}: {error}") from None
    except TypeError as error:
        raise DTypeError(f"[getitem] {item}: {error}") from None
    count = len(range(start, stop, step))
    return (start if count else 0), count, step


def _take(x: Any, arrays: dict[int, Any], together: bool) -> Any:
    """Pick along several axes at once: their index arrays broadcast to one shape, which stands
    where the first of them stood, or in front if they are not ``together``."""
    axes = sorted(arrays)
    if len(axes) == 1:
        (axis,) = axes
        return frontend.run("gather", x, x._raw, _index_raw(x, arrays[axis]), axis)
    try:
        picked = special.broadcast_arrays(*(arrays[a] for a in axes))
    except ShapeError:
        shapes = ", ".join(str(arrays[a].shape) for a in axes)
        raise IndexingError(f"[getitem] index arrays {shapes} do not broadcast") from None
    strides = [math.prod(x.shape[b] for b in axes[i + 1 :]) for i in range(len(axes))]
    linear = functions.multiply(picked[0], strides[0])
    for values, stride in zip(picked[1:], strides[1:], strict=True):
        linear = functions.add(linear, functions.multiply(values, stride))
    at = axes[0] if together else 0
    rest = [a for a in range(x.ndim) if a not in arrays]
    x = special.permute(x, [*rest[:at], *axes, *rest[at:]])
    merged = math.prod(x.shape[at : at + len(axes)])
    x = special.reshape(x, (*x.shape[:at], merged, *x.shape[at + len(axes) :]))
    return frontend.run("gather", x, x._raw, _index_raw(x, linear), at)


def _index_raw(x: Any, indices: Any) -> Any:
    return (indices if type(indices) is type(x) else x._lift(indices))._raw
