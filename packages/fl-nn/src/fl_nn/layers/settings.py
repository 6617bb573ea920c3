"""Settings of windows over the two spatial axes: one number for both, or a pair."""

from __future__ import annotations

from collections.abc import Sequence

from fl_nn.errors import ModuleError

Pair = tuple[int, int]
IntOrPair = int | Sequence[int]
#: (low, high) for the rows and for the columns.
Sides = tuple[Pair, Pair]


def pair(layer: str, name: str, value: IntOrPair, least: int) -> Pair:
    """`value` as (rows, columns), both at least `least`. Raises ModuleError."""
    given = (value, value) if isinstance(value, int) else tuple(value)
    if len(given) != 2 or not all(isinstance(n, int) and n >= least for n in given):
        raise ModuleError(
            f"[{layer}] {name} {value!r}: give an int or a pair of ints, at least {least}"
        )
    return given[0], given[1]


def padding(layer: str, value: str | IntOrPair) -> Pair | None:
    """As a pair, or None for "same"."""
    if isinstance(value, str):
        if value.lower() != "same":
            raise ModuleError(f"[{layer}] padding {value!r}: give an int, a pair, or 'same'")
        return None
    return pair(layer, "padding", value, 0)


def sides(
    padding: Pair | None, size: Sequence[int], window: Pair, stride: Pair, dilation: Pair
) -> Sides:
    """What to add (before, after) each spatial axis of `size`.

    None is SAME: as much as makes the output ceil(size / stride) long, the larger half behind.
    """
    if padding is not None:
        return (padding[0], padding[0]), (padding[1], padding[1])
    rows, columns = (_same(size[i], window[i], stride[i], dilation[i]) for i in range(2))
    return rows, columns


def _same(size: int, window: int, stride: int, dilation: int) -> Pair:
    steps = -(-size // stride) - 1
    total = max(steps * stride + dilation * (window - 1) + 1 - size, 0)
    return total // 2, total - total // 2


def text(value: Sequence[int]) -> str:
    """`3` for (3, 3), `(3, 5)` otherwise."""
    return str(value[0]) if value[0] == value[1] else f"({value[0]}, {value[1]})"
