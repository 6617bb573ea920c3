"""Public shape functions: reshape, repeat, roll, pad, move axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from fl_tensor import arguments, rules
from fl_tensor.arguments import Pairs, axes, axis_of, pairs_of, refuse, shape_of
from fl_tensor.arrays.value import ArrayValue
from fl_tensor.derived.repetition import PAD_MODES
from fl_tensor.dispatch import frontend
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "expand_dims",
    "flip",
    "moveaxis",
    "pad",
    "permute",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
]


def reshape(x: ArrayLike, shape: int | Sequence[int], *, copy: bool | None = None) -> Any:
    """The same elements in C order in another shape; one size may be -1 (what is left over). Arrays
    are values, so that ``copy`` makes no difference that could be seen."""
    x = operand("reshape", "A", x)
    held = x.shape
    wanted = fitted(held, arguments.ints_of("reshape", shape, "shape"))
    return frontend.same_value(x) if wanted == held else run("reshape", x, x._raw, wanted)


def fitted(held: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that ``reshape`` makes of ``held``. Raises ShapeError."""
    size = math.prod(held)
    if wanted and min(wanted) < 0:
        wanted = shape_of("reshape", _completed(held, size, wanted))
    if math.prod(wanted) != size:
        raise ShapeError(
            f"[reshape] x {held}: {size} elements do not fit {wanted}, "
            f"which has {math.prod(wanted)}"
        )
    return wanted


def _completed(held: tuple[int, ...], size: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    # With what is left over in the place of a single -1.
    if wanted.count(-1) > 1:
        raise ShapeError(f"[reshape] x {held}: one size may be -1, not several as in {wanted}")
    if -1 not in wanted:
        return wanted
    known, at = -math.prod(wanted), wanted.index(-1)
    if known == 0 or size % known:
        raise ShapeError(f"[reshape] x {held}: {size} elements do not fill {wanted}")
    return (*wanted[:at], size // known, *wanted[at + 1 :])


def permute(x: ArrayLike, axes: Sequence[int]) -> Any:
    """Axis i of the result is axis ``axes[i]`` of ``x``."""
    x = operand("permute", "A", x)
    return run("permute", x, x._raw, order(x.shape, arguments.ints_of("permute", axes, "axes")))


@functools.lru_cache(maxsize=1024)
def order(shape: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """``given``, counted from the front. Raises AxisError, or ShapeError unless it names each axis
    once."""
    found = tuple(axis_of("permute", a, shape) for a in given)
    if sorted(found) != list(range(len(shape))):
        raise ShapeError(f"[permute] x {shape}: {given} does not name each axis once")
    return found


def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None, **foreign: NoReturn) -> Any:
    """Without the given axes of size 1, or without all of them."""
    if foreign:
        refuse("squeeze", foreign)
    x = operand("squeeze", "A", x)
    if axis is None:
        axis = [i for i, n in enumerate(x.shape) if n == 1]
    return run("squeeze", x, x._raw, axes("squeeze", axis, x.shape))


def expand_dims(x: ArrayLike, axis: int | Sequence[int], **foreign: NoReturn) -> Any:
    """New axes of size 1 at these positions of the result."""
    if foreign:
        refuse("expand_dims", foreign)
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


def flip(x: ArrayLike, axis: int | Sequence[int] | None = None, **foreign: NoReturn) -> Any:
    """The elements in reverse order along the given axes, or along all."""
    if foreign:
        refuse("flip", foreign)
    x = operand("flip", "A", x)
    return run("flip", x, x._raw, axes("flip", axis, x.shape))


def split(
    x: ArrayLike, sizes: int | Sequence[int], axis: int = 0, **foreign: NoReturn
) -> list[Any]:
    """Consecutive parts along ``axis``: of the given sizes, or that many equal ones."""
    if foreign:
        refuse("split", foreign)
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


def pad(x: ArrayLike, widths: Pairs, mode: str = "constant", value: Any = 0) -> Any:
    """``x`` with elements around it. ``widths``: a (before, after) pair per axis, one pair or one
    int for all. A negative width takes as many elements away, before others are added.

    mode  ``"constant"``: ``value``; ``"edge"``: the outermost elements again; ``"wrap"``: the
          elements of the other end; ``"symmetric"``: mirrored at the edge; ``"reflect"``: mirrored
          at the outermost elements, which are not repeated
    """
    x = operand("pad", "A", x)
    pairs = pairs_of("pad", widths, x.ndim, "widths")
    if any(n < 0 for pair in pairs for n in pair):
        x = _cropped(x, pairs)
        pairs = tuple((max(a, 0), max(b, 0)) for a, b in pairs)
    low, high = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    if mode == "constant":
        value = arguments.scalar("pad", value, x.dtype)
        return run("pad", x, x._raw, low, high, (0,) * x.ndim, value)
    if mode in PAD_MODES and not any(low) and not any(high):
        return frontend.same_value(x)
    return run("pad_edges", x, x._raw, low, high, mode)


def _cropped(x: Any, pairs: tuple[tuple[int, int], ...]) -> Any:
    # Without the elements that negative widths take away.
    starts = tuple(max(-low, 0) for low, _ in pairs)
    kept = tuple(n + min(low, 0) + min(high, 0) for n, (low, high) in zip(x.shape, pairs))
    if min(kept) < 0:
        axis = next(i for i, n in enumerate(kept) if n < 0)
        raise ShapeError(
            f"[pad] x {x.shape}: widths {pairs[axis]} take more than the {x.shape[axis]} elements "
            f"of axis {axis}"
        )
    return run("slice", x, x._raw, starts, kept, (1,) * x.ndim)


def repeat(
    x: ArrayLike,
    repeats: int | Sequence[int] | ArrayLike,
    axis: int | None = None,
    **foreign: NoReturn,
) -> Any:
    """Every element several times in a row: ``repeats`` times each, or as often as ``repeats``
    says for every slice along ``axis``; ``axis=None`` takes the elements in C order. Numbers in a
    tensor are read: the result's shape depends on them."""
    if foreign:
        refuse("repeat", foreign)
    x = operand("repeat", "A", x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = axis_of("repeat", axis, x.shape)
    if isinstance(repeats, ArrayValue):
        if not repeats.dtype.is_integer:
            raise DTypeError(f"[repeat] repeats are {repeats.dtype}: expected integers")
        if repeats.ndim > 1:
            raise ShapeError(f"[repeat] repeats {repeats.shape}: expected one axis at most")
        repeats = repeats.tolist()
    counts = arguments.ints_of("repeat", repeats, "repeats")
    return run("repeat", x, x._raw, counts, axis)


def roll(
    x: ArrayLike,
    shift: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
    **foreign: NoReturn,
) -> Any:
    """Elements moved ``shift`` places along ``axis``; those that fall off come back in front.
    Several shifts go with as many axes, one with all of them; ``axis=None`` moves the elements in C
    order."""
    if foreign:
        refuse("roll", foreign)
    x = operand("roll", "A", x)
    shifts = arguments.ints_of("roll", shift, "shift")
    if axis is None:
        flat = reshape(x, (-1,))
        return reshape(run("roll", flat, flat._raw, sum(shifts), 0), x.shape)
    given = tuple(axis_of("roll", a, x.shape) for a in arguments.ints_of("roll", axis, "axis"))
    if len(shifts) != len(given) and 1 not in (len(shifts), len(given)):
        raise ArgumentError(f"[roll] {len(shifts)} shifts {shifts} for {len(given)} axes {given}")
    count = max(len(shifts), len(given)) if shifts and given else 0
    moves: dict[int, int] = {}
    for i in range(count):
        at = given[i % len(given)]
        moves[at] = moves.get(at, 0) + shifts[i % len(shifts)]
    rolled = frontend.same_value(x)
    for at, places in moves.items():
        rolled = run("roll", rolled, rolled._raw, places, at)
    return rolled
