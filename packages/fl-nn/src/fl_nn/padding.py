"""Padding of variable-length sequences in a batch.

Containers pass `lengths` to modules that accept it (`takes_lengths`). They count steps of x as
these modules see it, before the padding. Where earlier layers make the steps fewer, as those of
architecture files do, `Durations` say which share of the steps each sequence has.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import fl_tensor as ft
from fl_nn.forward import Forward
from fl_nn.values import arange_like
from fl_tensor.annotations import Checked
from fl_tensor.arguments import int_of


class Durations(Checked):
    """How long the sequences of a batch are in any unit, such as milliseconds, or steps before
    earlier layers made them fewer; given as `lengths`. The longest has no padding: of T steps,
    ceil(duration / longest * T) are a sequence's own.

    Raises ShapeError unless they are finite numbers above 0, on one axis.
    """

    def __init__(self, values: Sequence[float] | ft.Array) -> None:
        self.values = one_axis("Durations", values)
        if not all(n > 0 and math.isfinite(n) for n in self.values):
            raise ft.ShapeError(f"[Durations] {self.values}: give finite numbers above 0")

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Durations({self.values})"


#: For each sequence its steps, or its duration.
Lengths = Sequence[int] | ft.Array | Durations


def with_lengths(module: Forward, lengths: Lengths | None) -> Callable[..., Any]:
    """`module`, called with `lengths` if there are any and it asks for them."""
    if lengths is None or not module.takes_lengths:
        return module
    return functools.partial(module, lengths=lengths)


def padding_mask(
    layer: str, x: ft.Array, key_mask: ft.Array | None, lengths: Lengths | None
) -> ft.Array | None:
    """The mask (batch, steps), bool, false where x (batch, steps, size) is padding: the one given,
    or that of `lengths`. Raises ShapeError for lengths that do not fit, or both."""
    if lengths is None:
        return key_mask
    if key_mask is not None or x.ndim != 3:
        raise ft.ShapeError(
            f"[{layer}] x {x.shape} with lengths: expected (batch, steps, size), and no key_mask"
        )
    counts = valid_steps(layer, lengths, *x.shape[:2])
    ends = ft.asarray(counts, ft.int64, x.device, x.backend)
    return arange_like(x, 0, x.shape[1], ft.int64) < ft.expand_dims(ends, 1)


def valid_steps(layer: str, lengths: Lengths, batch: int, steps: int) -> list[int]:
    """How many of `steps` are each sequence's own. Raises ShapeError for lengths that do not fit,
    DTypeError for what are no ints."""
    if isinstance(lengths, Durations):
        _require_one_each(layer, lengths.values, batch)
        # In fractions: 0.3 / 0.3 * 10 steps are 10, and not 11.
        longest = Fraction(max(lengths.values, default=1))
        return [math.ceil(Fraction(n) * steps / longest) for n in lengths.values]
    counts = whole_lengths(layer, lengths, batch)
    _require_one_each(layer, counts, batch)
    if not all(1 <= n <= steps for n in counts):
        raise ft.ShapeError(
            f"[{layer}] lengths {counts} of sequences of {steps} steps: give numbers of steps from "
            f"1 to {steps}. If they count something else, such as samples or the steps before "
            "earlier layers made them fewer, give lengths=nn.Durations(...)"
        )
    return counts


def _require_one_each(layer: str, given: Sequence[float], batch: int) -> None:
    if len(given) != batch:
        raise ft.ShapeError(
            f"[{layer}] {len(given)} lengths for a batch of {batch}: give one for each sequence"
        )


def whole_lengths(layer: str, lengths: Sequence[int] | ft.Array, batch: int) -> list[int]:
    """Lengths as ints. Raises ShapeError for an array of several axes, DTypeError for what are no
    ints."""
    return [int_of(layer, n, "lengths hold") for n in one_axis(layer, lengths, batch)]


def one_axis(
    layer: str, lengths: Sequence[float] | ft.Array, batch: int | str = "batch"
) -> list[Any]:
    """Lengths as a list. Raises ShapeError for an array of several axes, or of none."""
    shape = getattr(lengths, "shape", None)
    if shape is not None and len(shape) != 1:
        raise ft.ShapeError(
            f"[{layer}] lengths {tuple(shape)}: give one number for each sequence of the batch, "
            f"of shape ({batch},)"
        )
    return lengths.tolist() if isinstance(lengths, ft.Array) else list(lengths)
