"""Public functions that repeat, move or surround elements: their arguments take some reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor import arguments, frontend
from fl_tensor.arguments import Pairs, axis_of, pairs_of
from fl_tensor.array import Array
from fl_tensor.derived.repetition import PAD_MODES
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError
from fl_tensor.frontend import ArrayLike, operand, run
from fl_tensor.functions.special import reshape

__all__ = ["pad", "repeat", "roll"]


def pad(x: ArrayLike, widths: Pairs, mode: str = "constant", value: Any = 0) -> Any:
    """``x`` with elements around it. ``widths``: a (before, after) pair per axis, one pair or one
    int for all.

    mode  ``"constant"``: ``value``; ``"edge"``: the outermost elements again; ``"wrap"``: the
          elements of the other end; ``"symmetric"``: mirrored at the edge; ``"reflect"``: mirrored
          at the outermost elements, which are not repeated
    """
    x = operand("pad", "A", x)
    pairs = pairs_of("pad", widths, x.ndim, "widths")
    if any(n < 0 for pair in pairs for n in pair):
        raise ShapeError(f"[pad] x {x.shape}: widths {pairs} may not be negative")
    low, high = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    if mode == "constant":
        value = arguments.scalar("pad", value, x.dtype)
        return run("pad", x, x._raw, low, high, (0,) * x.ndim, value)
    if mode in PAD_MODES and not any(low) and not any(high):
        return frontend.same_value(x)
    return run("pad_edges", x, x._raw, low, high, mode)


def repeat(x: ArrayLike, repeats: int | Sequence[int] | ArrayLike, axis: int | None = None) -> Any:
    """Every element several times in a row: ``repeats`` times each, or as often as ``repeats``
    says for every slice along ``axis``; ``axis=None`` takes the elements in C order. Numbers in a
    tensor are read: the result's shape depends on them."""
    x = operand("repeat", "A", x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = axis_of("repeat", axis, x.shape)
    if isinstance(repeats, Array):
        if not repeats.dtype.is_integer:
            raise DTypeError(f"[repeat] repeats are {repeats.dtype}: expected integers")
        if repeats.ndim > 1:
            raise ShapeError(f"[repeat] repeats {repeats.shape}: expected one axis at most")
        repeats = repeats.tolist()
    counts = arguments.ints_of("repeat", repeats, "repeats")
    return run("repeat", x, x._raw, counts, axis)


def roll(x: ArrayLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Any:
    """Elements moved ``shift`` places along ``axis``; those that fall off come back in front.
    Several shifts go with as many axes, one with all of them; ``axis=None`` moves the elements in C
    order."""
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
