"""Public functions that do more than promote and pass on: they complete or normalise arguments."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from typing import Any

from fl_tensor import arguments, dtypes, frontend, rules
from fl_tensor.arguments import Pairs, axes, axis_of, pairs_of, per_axis, shape_of
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from fl_tensor.frontend import ArrayLike, operand, operands_of, run

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "cast",
    "conj",
    "conv",
    "cross_entropy",
    "embedding",
    "expand_dims",
    "flip",
    "gather",
    "imag",
    "matmul",
    "moveaxis",
    "nonzero",
    "permute",
    "positive",
    "real",
    "reshape",
    "scatter",
    "split",
    "squeeze",
    "take_along_axis",
    "where",
]


def cast(x: ArrayLike, dtype: DType | str) -> Any:
    """``x`` in another dtype: floats truncate towards zero, integers wrap, bool is ``x != 0``."""
    x = operand("cast", "A", x)
    made = frontend.cast(x, dtypes.dtype(dtype))
    return frontend.same_value(x) if made is x else made


def real(x: ArrayLike) -> Any:
    """Real part; ``x`` itself where it is real."""
    x = operand("real", "A", x)
    return run("real", x, x._raw) if x.dtype.kind == "c" else frontend.same_value(x)


def imag(x: ArrayLike) -> Any:
    """Imaginary part; zeros where ``x`` is real."""
    x = operand("imag", "A", x)
    if x.dtype.kind == "c":
        return run("imag", x, x._raw)
    zero = x._constant(arguments.scalar("imag", 0, x.dtype), x.dtype)
    return run("broadcast_to", x, zero._raw, x.shape)


def conj(x: ArrayLike) -> Any:
    """Complex conjugate; ``x`` itself where it is real."""
    x = operand("conj", "A", x)
    return run("conj", x, x._raw) if x.dtype.kind == "c" else frontend.same_value(x)


def positive(x: ArrayLike) -> Any:
    """``+x``: a number, not a bool, as it is."""
    x = operand("positive", "N", x)
    return frontend.same_value(x)


def reshape(x: ArrayLike, shape: int | Sequence[int]) -> Any:
    """The same elements in C order in another shape; one size may be -1 (what is left over)."""
    x = operand("reshape", "A", x)
    wanted, held = arguments.ints_of("reshape", shape, "shape"), x.shape
    size = math.prod(held)
    if wanted and min(wanted) < 0:
        wanted = shape_of("reshape", _completed(held, size, wanted))
    if math.prod(wanted) != size:
        raise ShapeError(
            f"[reshape] x {held}: {size} elements do not fit {wanted}, "
            f"which has {math.prod(wanted)}"
        )
    return frontend.same_value(x) if wanted == held else run("reshape", x, x._raw, wanted)


def _completed(held: tuple[int, ...], size: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    # With what is left over in the place of a single -1.
    if wanted.count(-1) != 1:
        return wanted
    known, at = -math.prod(wanted), wanted.index(-1)
    if known == 0 or size % known:
        raise ShapeError(f"[reshape] x {held}: {size} elements do not fill {wanted}")
    return (*wanted[:at], size // known, *wanted[at + 1 :])


def permute(x: ArrayLike, axes: Sequence[int]) -> Any:
    """Axis i of the result is axis ``axes[i]`` of ``x``."""
    x = operand("permute", "A", x)
    return run("permute", x, x._raw, _order(x.shape, arguments.ints_of("permute", axes, "axes")))


@functools.lru_cache(maxsize=1024)
def _order(shape: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    order = tuple(axis_of("permute", a, shape) for a in given)
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(f"[permute] x {shape}: {given} does not name each axis once")
    return order


def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """Without the given axes of size 1, or without all of them."""
    x = operand("squeeze", "A", x)
    if axis is None:
        axis = [i for i, n in enumerate(x.shape) if n == 1]
    return run("squeeze", x, x._raw, axes("squeeze", axis, x.shape))


def expand_dims(x: ArrayLike, axis: int | Sequence[int]) -> Any:
    """New axes of size 1 at these positions of the result."""
    x = operand("expand_dims", "A", x)
    given = arguments.ints_of("expand_dims", axis, "axis")
    if len(given) == 1:
        return run("expand_dims", x, x._raw, axis_of("expand_dims", given[0], (*x.shape, 1)))
    shape = list(x.shape)
    for place in axes("expand_dims", given, (*x.shape, *given)):
        shape.insert(place, 1)
    return reshape(x, shape)


def moveaxis(
    x: ArrayLike, source: int | Sequence[int] = -1, destination: int | Sequence[int] = -1
) -> Any:
    """Axes ``source`` moved to positions ``destination``; the others keep their order."""
    x = operand("moveaxis", "A", x)
    places = []
    for name, given in (("source", source), ("destination", destination)):
        ints = arguments.ints_of("moveaxis", given, name)
        axes("moveaxis", ints, x.shape)  # each at most once
        places.append([axis_of("moveaxis", i, x.shape, name) for i in ints])
    old, new = places
    if len(old) != len(new):
        raise ShapeError(f"[moveaxis] x {x.shape}: {len(old)} axes for {len(new)} destinations")
    if len(old) == 1:
        return run("moveaxis", x, x._raw, old[0], new[0])
    order = [a for a in range(x.ndim) if a not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return permute(x, order)


def flip(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """The elements in reverse order along the given axes, or along all."""
    x = operand("flip", "A", x)
    return run("flip", x, x._raw, axes("flip", axis, x.shape))


def split(x: ArrayLike, sizes: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Consecutive parts along ``axis``: of the given sizes, or that many equal ones."""
    x = operand("split", "A", x)
    axis = axis_of("split", axis, x.shape)
    given = arguments.ints_of("split", sizes, "sizes")
    if arguments.is_single(sizes):
        (parts,) = given
        if parts < 1 or x.shape[axis] % parts:
            raise ShapeError(
                f"[split] x {x.shape}: axis {axis} of {x.shape[axis]} has no {parts} equal parts"
            )
        given = (x.shape[axis] // parts,) * parts
    return run("split", x, x._raw, given, axis)


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Any:
    """``x`` where ``condition`` (bool) holds, else ``y``; all three broadcast."""
    condition, x, y = operands_of("where", "APP", condition, x, y)
    if condition.dtype is not dtypes.bool:
        raise DTypeError(f"[where] condition is {condition.dtype}: expected bool, such as x != 0")
    return run("where", x, condition._raw, x._raw, y._raw)


def nonzero(x: ArrayLike) -> tuple[Any, ...]:
    """Indices of the elements that are not zero: one 1-d int64 array per axis, C order."""
    x = operand("nonzero", "A", x)
    if not x.shape:
        raise ShapeError("[nonzero] x has no axes: compare it with zero instead")
    return run("nonzero", x, x._raw)


def gather(x: ArrayLike, indices: ArrayLike, axis: int = 0) -> Any:
    """``x`` at integer ``indices`` along ``axis``, which the shape of ``indices`` replaces.
    Negative indices count from the end. Raises IndexingError for one that is out of range."""
    x, indices = operands_of("gather", "AA", x, indices)
    axis = axis_of("gather", axis, x.shape)
    indices = in_range("gather", indices, x.shape[axis], axis, x.shape)
    return run("gather", x, x._raw, indices._raw, axis)


def scatter(
    x: ArrayLike, indices: ArrayLike, updates: ArrayLike, axis: int = 0, mode: str = "set"
) -> Any:
    """``x`` with ``updates`` written (``"set"``) or added (``"add"``) where ``gather`` would read.
    ``updates`` broadcast to the shape of ``gather(x, indices, axis)``."""
    if mode not in ("set", "add"):
        raise ArgumentError(f"[scatter] mode {mode!r}: expected 'set' or 'add'")
    x, indices, updates = operands_of("scatter", "AAA", x, indices, updates)
    axis = axis_of("scatter", axis, x.shape)
    indices = in_range("scatter", indices, x.shape[axis], axis, x.shape)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    updates = frontend.cast(updates, x.dtype)
    if updates.shape != shape:
        if rules.broadcast("scatter", updates.shape, shape) != shape:
            rules.fail("scatter", x=x.shape, updates=updates.shape, why=f"updates must fit {shape}")
        updates = run("broadcast_to", updates, updates._raw, shape)
    return run("scatter", x, x._raw, indices._raw, updates._raw, axis, mode)


def in_range(op: str, indices: Any, size: int, axis: int, shape: Sequence[int]) -> Any:
    """Integer indices with negative ones counted from the end. Reads the indices: IndexingError
    names the first that is out of range."""
    if not indices.dtype.is_integer:
        raise DTypeError(f"[{op}] indices are {indices.dtype}: expected integers")
    if indices.dtype not in (dtypes.int64, dtypes.int32):
        indices = frontend.cast(indices, dtypes.int64)
    if indices.size == 0 or not indices._backend.has_values:
        return indices
    low, high = _extremes(indices)
    if low < -size or high >= size:
        bad = low if low < -size else high
        raise IndexingError(
            f"[{op}] x {tuple(shape)}: index {bad} is out of range for axis {axis} of {size}"
        )
    return where(indices < 0, indices + size, indices) if low < 0 else indices


def _extremes(x: Any) -> tuple[int, int]:
    # The smallest and the largest of some signed integers. Looking at an index is no operation of
    # the program: the backend is asked, not the layers above it.
    backend, value = x._backend, x._tensor()._raw
    axes = tuple(range(len(value.shape)))
    found = (backend.min(value, axes), backend.max(value, axes))
    low, high = (int.from_bytes(backend.to_host(v), sys.byteorder, signed=True) for v in found)
    return low, high


def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int = -1) -> Any:
    """``out[..., i, ...] = x[..., indices[..., i, ...], ...]``: shapes equal except along ``axis``;
    the shape of ``indices`` is the result's. Negative indices count from the end; IndexingError for
    one that is out of range."""
    x, indices = operands_of("take_along_axis", "AA", x, indices)
    axis = axis_of("take_along_axis", axis, x.shape)
    indices = in_range("take_along_axis", indices, x.shape[axis], axis, x.shape)
    return run("take_along_axis", x, x._raw, indices._raw, axis)


def embedding(weight: ArrayLike, indices: ArrayLike) -> Any:
    """Rows of ``weight`` (n, dim) at integer ``indices`` (...): shape (..., dim). Raises
    IndexingError for one outside [-n, n)."""
    weight, indices = operands_of("embedding", "AA", weight, indices)
    if weight.ndim == 2:
        indices = in_range("embedding", indices, weight.shape[0], 0, weight.shape)
    return run("embedding", weight, weight._raw, indices._raw)


def cross_entropy(log_probs: ArrayLike, targets: ArrayLike, axis: int = -1) -> Any:
    """``-log_probs`` at integer ``targets`` along ``axis``: log_probs (..., classes, ...), targets
    the same shape without that axis, and so is the result. Raises IndexingError for a target
    outside [0, classes)."""
    log_probs, targets = operands_of("cross_entropy", "SA", log_probs, targets)
    axis = axis_of("cross_entropy", axis, log_probs.shape)
    if targets.dtype.is_integer and targets.size and targets._backend.has_values:
        low, high = targets.min().item(), targets.max().item()
        if low < 0 or high >= log_probs.shape[axis]:
            raise IndexingError(
                f"[cross_entropy] target {low if low < 0 else high} is outside the "
                f"{log_probs.shape[axis]} classes of log_probs {log_probs.shape}"
            )
    return run("cross_entropy", log_probs, log_probs._raw, targets._raw, axis)


def matmul(x: ArrayLike, y: ArrayLike) -> Any:
    """Matrix product: (..., m, k) times (..., k, n), leading axes broadcast. A 1-d operand is a row
    on the left, a column on the right, and its axis is dropped from the result."""
    x, y = operands_of("matmul", "NN", x, y)
    left, right = x.shape, y.shape
    if not left or not right:
        raise ShapeError(f"[matmul] x {left} and y {right}: both need at least one axis")
    row, column = len(left) == 1, len(right) == 1
    inner = right[0 if column else -2]
    if left[-1] != inner:
        raise ShapeError(
            f"[matmul] x {left} and y {right}: inner dimensions differ ({left[-1]} != {inner})"
        )
    x = run("reshape", x, x._raw, (1, *left)) if row else x
    y = run("reshape", y, y._raw, (*right, 1)) if column else y
    result = run("matmul", x, x._raw, y._raw)
    if row or column:
        made = result.shape
        kept = made[:-2] + (() if row else made[-2:-1]) + (() if column else made[-1:])
        result = run("reshape", result, result._raw, kept)
    return result


def conv(
    x: ArrayLike,
    w: ArrayLike,
    stride: int | Sequence[int] = 1,
    padding: Pairs = 0,
    input_dilation: int | Sequence[int] = 1,
    kernel_dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of ``x`` (batch, channels, *spatial) with ``w`` (features, channels /
    groups, *kernel). ``padding``: an int, an int per axis, or a (low, high) pair per axis, which
    may be negative (cropping); strides and dilations: an int, or one per spatial axis. An axis of
    n elements and a kernel of k gives ``((n - 1) * input_dilation + low + high - (k - 1) *
    kernel_dilation) // stride + 1``."""
    x, w = operands_of("conv", "NN", x, w)
    n = x.ndim - 2
    if n < 1:
        raise ShapeError(f"[conv] x {x.shape}: expected (batch, channels, *spatial)")
    return run(
        "conv",
        x,
        x._raw,
        w._raw,
        per_axis("conv", stride, n, "stride"),
        pairs_of("conv", padding, n, "padding"),
        per_axis("conv", input_dilation, n, "input_dilation"),
        per_axis("conv", kernel_dilation, n, "kernel_dilation"),
        arguments.int_of("conv", groups, "groups"),
    )


def broadcast_arrays(*xs: ArrayLike) -> list[Any]:
    """The arrays, each broadcast to their common shape."""
    made = operands_of("broadcast_arrays", "A" * len(xs), *xs) if xs else []
    shape: tuple[int, ...] = ()
    for x in made:
        shape = rules.broadcast("broadcast_arrays", shape, x.shape)
    return [run("broadcast_to", x, x._raw, shape) for x in made]


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast. Raises ShapeError."""
    found: tuple[int, ...] = ()
    for shape in shapes:
        found = rules.broadcast("broadcast_shapes", found, shape_of("broadcast_shapes", shape))
    return found
