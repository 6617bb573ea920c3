"""Features with mean 0 and deviation 1, over a recording or around each frame."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_speech.features.filterbank import widest_float
from fl_speech.features.sequence import check_lengths, masked
from fl_tensor.annotations import checked


@checked
def normalize(
    x: ft.Array,
    lengths: ft.Array | None = None,
    *,
    per_feature: bool = False,
    threshold: float = 0.0,
) -> Any:
    """`(..., frames, size)`, each recording minus its mean, divided by its standard deviation.

    Both are taken over all frames and features of a recording (Flashlight's `normalize`), or over
    frames alone (`per_feature`). A deviation of `threshold` or less divides nothing. With `lengths`
    (...,) later frames count for nothing and become 0. Differentiable. Raises `ft.ShapeError` for
    fewer than two axes or lengths of another shape.
    """
    check_lengths("normalize", x, lengths, 2)
    if x.size == 0:
        return x
    axes = (-2,) if per_feature else (-2, -1)
    centred, count = _centred(x, lengths, axes)
    variance = (centred * centred).sum(axis=axes, keepdims=True) / count
    return _divided(centred, variance, threshold)


@checked
def local_normalize(
    x: ft.Array,
    left: int,
    right: int,
    lengths: ft.Array | None = None,
    *,
    per_feature: bool = False,
    threshold: float = 0.0,
) -> Any:
    """`(..., frames, size)`, each frame minus the mean and divided by the standard deviation of the
    frames from `left` before to `right` after it, as many as there are.

    Otherwise as `normalize` (Flashlight's `localNormalize`). Running sums are float64 where the
    backend has it. Raises `ft.ArgumentError` for a negative context.
    """
    if left < 0 or right < 0:
        raise ft.ArgumentError(f"[local_normalize] left {left}, right {right}: at least 0")
    check_lengths("local_normalize", x, lengths, 2)
    if x.size == 0:
        return x
    frames = x.shape[-2]
    with ft.use(x.backend):
        wide = widest_float()
        here = ft.arange(frames, dtype=ft.int64, device=x.device)
    # Without its mean the recording has small running sums of squares.
    values = _centred(x.astype(wide), lengths, (-2, -1))[0]
    begin, end = ft.maximum(here - left, 0), ft.minimum(here + right + 1, frames)

    def around(value: Any) -> Any:
        value = value if per_feature else value.sum(axis=-1, keepdims=True)
        sums = ft.cumsum(value, axis=-2)
        sums = ft.pad(sums, [(0, 0)] * (sums.ndim - 2) + [(1, 0), (0, 0)])
        return ft.gather(sums, end, axis=-2) - ft.gather(sums, begin, axis=-2)

    ones = ft.ones_like(values)
    count = ft.maximum(around(ones if lengths is None else masked(ones, lengths)), 1.0)
    mean = around(values) / count
    variance = ft.maximum(around(values * values) / count - mean * mean, 0.0)
    found = _divided(values - mean, variance, threshold)
    return (found if lengths is None else masked(found, lengths)).astype(x.dtype)


def _centred(x: Any, lengths: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """`x` minus its mean over `axes` (0 beyond lengths), and how many values a mean is of."""
    frames = x.shape[-2]
    count: Any = frames * (x.shape[-1] if len(axes) == 2 else 1)
    if lengths is not None:
        x = masked(x, lengths)
        count = ft.clip(lengths, 1, frames).reshape(*lengths.shape, 1, 1) * (count // frames)
        count = count.astype(x.dtype)
    centred = x - x.sum(axis=axes, keepdims=True) / count
    return (centred if lengths is None else masked(centred, lengths)), count


def _divided(x: Any, variance: Any, threshold: float) -> Any:
    """`x` by the square root of `variance`, where that is above the threshold."""
    return x / ft.where(variance > threshold * threshold, variance, 1.0).sqrt()
