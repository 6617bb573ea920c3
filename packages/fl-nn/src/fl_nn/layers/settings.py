"""Validation of window settings: one number for all spatial axes, or one per axis."""

from __future__ import annotations

from collections.abc import Sequence

from fl_nn.errors import ModuleError
from fl_tensor.annotations import explained

Sizes = tuple[int, ...]
IntOrSizes = int | Sequence[int]
#: Zeros around every spatial axis, None for "same"; and what says so in a constructor.
Paddings = tuple[int | None, ...]
PaddingLike = str | int | Sequence[int | str]
#: (before, after) for every spatial axis.
Sides = tuple[tuple[int, int], ...]


def per_axis(layer: str, name: str, value: IntOrSizes, axes: int, least: int) -> Sizes:
    """`value` as one int per axis, all at least `least`. Raises ModuleError."""
    given = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(given) != axes or not all(isinstance(n, int) and n >= least for n in given):
        many = "an int" if axes == 1 else f"an int or {axes} ints"
        raise ModuleError(f"[{layer}] {name} {value!r}: give {many}, at least {least}")
    return given


def padding_of(layer: str, value: PaddingLike, axes: int) -> Paddings:
    """`value`, one for all axes or one per axis. Raises ModuleError."""
    given = (value,) * axes if isinstance(value, (int, str)) else tuple(value)
    found: list[int | None] = []
    for n in given:
        if isinstance(n, int) and n >= 0:
            found.append(n)
        elif isinstance(n, str) and n.lower() == "same":
            found.append(None)
    if not len(found) == len(given) == axes:
        many = f", or {axes} of these" if axes > 1 else ""
        raise ModuleError(f"[{layer}] padding {value!r}: give an int >= 0 or 'same'{many}")
    return tuple(found)


def padding_text(padding: Paddings) -> str:
    """Nothing for no padding, else for example `, padding=same` or `, padding=(1, same)`."""
    if not any(n != 0 for n in padding):
        return ""
    return f", padding={text(['same' if n is None else n for n in padding])}"


@explained
def derive_padding(
    size: int, window: int, stride: int = 1, padding: str | int = "same", dilation: int = 1
) -> tuple[int, int]:
    """What a window over an axis of `size` needs before and behind it: `padding` on both sides; or
    for "same" as much as makes the result ceil(size / stride) long, the larger half behind. What
    the layers do with every axis. Raises ModuleError for settings that make no sense."""
    numbers = {"size": size, "window": window, "stride": stride, "dilation": dilation}
    for name, number in numbers.items():
        per_axis("derive_padding", name, number, 1, least=0 if name == "size" else 1)
    given = padding_of("derive_padding", padding, 1)
    ((before, behind),) = sides(given, (size,), (window,), (stride,), (dilation,))
    return before, behind


def sides(
    padding: Paddings, size: Sequence[int], window: Sizes, stride: Sizes, dilation: Sizes
) -> Sides:
    """What to add (before, after) each spatial axis of `size`.

    None is SAME: as much as makes the output ceil(size / stride) long, the larger half behind.
    """
    totals = map(total_of_same, size, window, stride, dilation)
    return tuple(
        (same // 2, same - same // 2) if n is None else (n, n) for n, same in zip(padding, totals)
    )


def total_of_same(size: int, window: int, stride: int, dilation: int) -> int:
    """How much padding makes the output ceil(size / stride) long."""
    steps = -(-size // stride) - 1
    return max(steps * stride + dilation * (window - 1) + 1 - size, 0)


def text(value: Sequence[int | str]) -> str:
    """`3` for (3, 3), `(3, 5)` otherwise."""
    if all(n == value[0] for n in value):
        return str(value[0])
    return f"({', '.join(map(str, value))})"


def batched(axes: int) -> str:
    """What follows the channels in a shape of `axes` spatial axes, for messages."""
    return ", ".join(("depth", "height", "width")[-axes:] if axes > 1 else ("length",))
