"""Frames in time: derivatives, and frames beyond a length."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor.annotations import checked


@checked
def deltas(x: ft.Array, window: int, lengths: ft.Array | None = None) -> Any:
    """HTK's regression over `window` frames on each side: `(..., frames, size)`, the same shape.

    `d[t] = sum_i i (x[t + i] - x[t - i]) / (2 sum_i i²)`, i from 1 to `window`; frames beyond an
    end are the frame at that end (The HTK Book, 5.9). With `lengths` (...,) the end is the last
    frame of each length. Raises `ft.ArgumentError` for a window below 1, `ft.ShapeError` for fewer
    than two axes or lengths of another shape.
    """
    if window < 1:
        raise ft.ArgumentError(f"[deltas] window {window} must be at least 1")
    check_lengths("deltas", x, lengths, 2)
    count = x.shape[-2]
    if count == 0 or x.size == 0:
        return x
    if lengths is not None:
        x = held(x, lengths)
    wide = ft.pad(x, [(0, 0)] * (x.ndim - 2) + [(window, window), (0, 0)], mode="edge")
    total: Any = 0.0
    for i in range(1, window + 1):
        after = wide[..., window + i : window + i + count, :]
        before = wide[..., window - i : window - i + count, :]
        total = (after - before) * float(i) + total
    return total / float(2 * sum(i * i for i in range(1, window + 1)))


def check_lengths(where: str, x: Any, lengths: Any, axes: int) -> None:
    """Raise unless `x` has as many axes and `lengths`, if given, one integer for each sequence."""
    if x.ndim < axes:
        raise ft.ShapeError(f"[{where}] x {x.shape}: expected at least {axes} axes")
    if lengths is None:
        return
    if lengths.shape != x.shape[: x.ndim - axes]:
        raise ft.ShapeError(
            f"[{where}] lengths {lengths.shape} for x {x.shape}: expected "
            f"{x.shape[: x.ndim - axes]}, one for each sequence"
        )
    if lengths.dtype.kind not in "iu":
        raise ft.DTypeError(f"[{where}] lengths of {lengths.dtype}: they are integers")


def present(count: int, lengths: Any) -> Any:
    """Which of `count` frames are within `lengths` (...,): bool `(..., count)`."""
    with ft.use(lengths.backend):
        places = ft.arange(count, dtype=ft.int64, device=lengths.device)
    return places < lengths.reshape(*lengths.shape, 1)


def masked(x: Any, lengths: Any) -> Any:
    """`(..., frames, size)` with zeros beyond `lengths` (...,)."""
    return ft.where(present(x.shape[-2], lengths).reshape(*x.shape[:-1], 1), x, 0.0)


def held(x: Any, lengths: Any) -> Any:
    """`(..., frames, size)` with the last frame of each length beyond it."""
    *outer, count, size = x.shape
    flat = x.reshape(-1, size)
    with ft.use(x.backend):
        first = ft.arange(flat.shape[0] // count, dtype=ft.int64, device=x.device) * count
    last = first + ft.clip(lengths.reshape(-1), 1, count) - 1
    end = ft.gather(flat, last, axis=0).reshape(*outer, 1, size)
    return ft.where(present(count, lengths).reshape(*outer, count, 1), x, end)
