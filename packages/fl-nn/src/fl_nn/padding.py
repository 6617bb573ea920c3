"""Padding of variable-length sequences in a batch.

Containers pass `lengths` to modules that accept it (`takes_lengths`). Each module sees x (batch,
steps, size), and earlier layers may have shortened the sequences. So lengths are shares: those of
the batch in any unit (samples, milliseconds, steps), relative to the longest. Of T steps,
ceil(length / longest * T) count.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.values import arange_like

if TYPE_CHECKING:
    from fl_nn.module import Module

Lengths = Sequence[float] | ft.Array


def informed(module: Module, lengths: Lengths | None) -> Callable[..., Any]:
    """`module`, called with `lengths` if there are any and it asks for them."""
    if lengths is None or not module.takes_lengths:
        return module
    return functools.partial(module, lengths=lengths)


def steps_known(
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
    counts = own_steps(layer, lengths, *x.shape[:2])
    ends = ft.asarray(counts, ft.int64, x.device, x.backend)
    return arange_like(x, 0, x.shape[1], ft.int64) < ft.expand_dims(ends, 1)


def own_steps(layer: str, lengths: Lengths, batch: int, steps: int) -> list[int]:
    """How many of `steps` are each sequence's own. Raises ShapeError for lengths that do not
    fit."""
    given = lengths.tolist() if isinstance(lengths, ft.Array) else list(lengths)
    if len(given) != batch:
        raise ft.ShapeError(
            f"[{layer}] {len(given)} lengths for a batch of {batch}: give one for each sequence"
        )
    if not all(n > 0 and math.isfinite(n) for n in given):
        raise ft.ShapeError(f"[{layer}] lengths {given}: give finite numbers above 0")
    # In fractions: 0.3 / 0.3 * 10 steps are 10, and not 11.
    longest = Fraction(max(given, default=1))
    return [math.ceil(Fraction(n) * steps / longest) for n in given]
