"""The axes of an iteration space, and how operands move along them: what a program is made from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Space(NamedTuple):
    """``sizes`` of the axes, of which the last ``row_axes`` make a row, and for each operand its
    stride along each, in elements: 0 where it is broadcast."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    row_axes: int = 1

    def letters(self, operand: int) -> str:
        """How the operand moves: a program's letters, one for each axis."""
        last = len(self.sizes) - 1
        return "".join(
            "." if not stride else "c" if axis == last and stride == 1 else "s"
            for axis, stride in enumerate(self.strides[operand])
        )


def coalesce(
    sizes: Sequence[int],
    strides: Sequence[Sequence[int]],
    row_axes: int = 1,
    apart: Collection[int] = (),
) -> Space:
    """The same space with as few axes as can be: axes of size 1 go, and neighbours become one where
    every operand goes from the end of the inner one to the next of the outer one. Axes of a row
    stay in the row, those ``apart`` (whose index is asked for) stay alone, and one axis of a row is
    left. The order of the elements does not change, so random words do not either."""
    first_of_row = len(sizes) - row_axes
    kept: list[tuple[int, list[int], bool, bool]] = []  # size, strides, in the row, apart
    for axis, size in enumerate(sizes):
        in_row, alone = axis >= first_of_row, axis in apart
        if size == 1 and not alone:
            continue
        steps = [each[axis] for each in strides]
        if kept and not alone:
            before, outer, row, other = kept[-1]
            fits = all(a == b * size for a, b in zip(outer, steps))
            if fits and row == in_row and not other:
                kept[-1] = (before * size, steps, row, False)
                continue
        kept.append((size, steps, in_row, alone))
    rows = sum(row for _, _, row, _ in kept)
    if not rows:
        kept.append((1, [0] * len(strides), True, False))
    return Space(
        tuple(size for size, *_ in kept),
        tuple(tuple(steps[i] for _, steps, *_ in kept) for i in range(len(strides))),
        max(rows, 1),
    )
