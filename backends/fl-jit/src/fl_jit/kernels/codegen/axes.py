"""Axis merging: the smallest iteration space of a program, and the access letters of its operands.

Axes along which the strides of all operands are uniform are merged. Elementwise work on arrays in C
order then has one axis for any shape, and one program serves all shapes.
"""

from __future__ import annotations

from fl_tensor.extend import Shape


def letters(strides: Shape, sizes: Shape, row_axes: int) -> str:
    """The access letters of an input, one per axis, as in a program."""
    made = ["." if not s or n == 1 else "s" for s, n in zip(strides, sizes, strict=True)]
    if made[-1] == "s" and strides[-1] == 1:
        made[-1] = "c"
    elif row_axes == 1 and made[-2:] == ["s", "s"] and strides[-2] == 1 and sizes[-2] >= 8:
        made[-2] = "t"
    elif made[-1] == "s" and strides[-1] == 2:
        made[-1] = "2"
    return "".join(made)


def transposed_last(sizes: Shape, row_axes: int, strides: list[Shape]) -> tuple[Shape, list[Shape]]:
    """Reordered outer axes, which does not change the result.

    The new last one is an axis along which some operand is contiguous while it is not contiguous
    along rows.
    """
    outer = len(sizes) - row_axes
    for axis in range(outer - 1):
        if any(s[axis] == 1 and s[-1] not in (0, 1) for s in strides) and sizes[axis] > 1:
            order = [i for i in range(outer) if i != axis] + [axis]
            order += range(outer, len(sizes))
            moved = [tuple(s[i] for i in order) for s in strides]
            return tuple(sizes[i] for i in order), moved
    return sizes, strides


def output_letters(form: str, rank: int, row_axes: int) -> str:
    """The access letters of an output, which is in C order."""
    outer = rank - row_axes
    if form == "row":
        return "s" * outer + "." * row_axes
    if form == "all":
        return "." * rank
    return ("s" if form == "full" else ".") * outer + "s" * (row_axes - 1) + "c"


def join_axes(space: Shape, row_axes: int, strides: list[Shape]) -> tuple[Shape, int, list[Shape]]:
    """The same elements over the smallest number of axes, with row axes kept separate.

    Returns the sizes, the number of row axes (at least one), and the strides of each operand.
    """
    first = len(space) - row_axes if row_axes else len(space)
    outer = _join(space[:first], [s[:first] for s in strides])
    row = _join(space[first:], [s[first:] for s in strides])
    if not row_axes:  # the last axis becomes the row
        outer, row = _cut(outer)
    elif not row[0]:
        row = (1,), [(0,) for _ in strides]
    sizes = outer[0] + row[0]
    return sizes, len(row[0]), [a + b for a, b in zip(outer[1], row[1], strict=True)]


_Axes = tuple[Shape, list[Shape]]


def _join(sizes: Shape, strides: list[Shape]) -> _Axes:
    joined: list[int] = []
    moves: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        if joined and all(m[-1] == s[axis] * size for m, s in zip(moves, strides)):
            joined[-1] *= size
            for m, s in zip(moves, strides):
                m[-1] = s[axis]
            continue
        joined.append(size)
        for m, s in zip(moves, strides):
            m.append(s[axis])
    return tuple(joined), [tuple(m) for m in moves]


def _cut(axes: _Axes) -> tuple[_Axes, _Axes]:
    sizes, strides = axes
    if not sizes:
        return ((), [() for _ in strides]), ((1,), [(0,) for _ in strides])
    head = sizes[:-1], [s[:-1] for s in strides]
    return head, (sizes[-1:], [s[-1:] for s in strides])
