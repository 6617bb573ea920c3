"""The layouts of networks, and the interface: features and scores (batch, steps, size)."""

from __future__ import annotations

import fl_tensor as ft
from fl_speech.models.lengths import Time

#: Where each layout has time, and of how many axes.
LAYOUTS = {"features": Time(1, 3), "channels": Time(2, 3), "image": Time(3, 4)}


def arranged(features: ft.Array, layout: str) -> ft.Array:
    """Features (B, T, F) as a network of this layout takes them."""
    if features.ndim != 3:
        raise ft.ShapeError(
            f"[AcousticModel] features {features.shape}: expected (batch, steps, features); one "
            "recording is features[None]"
        )
    if layout == "features":
        return features
    x = ft.swapaxes(features, 1, 2)
    return x if layout == "channels" else ft.expand_dims(x, 1)


def sequences(y: ft.Array, time: Time) -> ft.Array:
    """Scores of a network as (B, T, N): of (B, T, N), (B, N, T), (1, B, T, N), (B, N, 1, T) or
    (B, 1, N, T)."""
    axis = time.axis
    if time.ndim == 4:
        single = {2: (0,), 3: (2, 1)}.get(axis, ())
        found = [a for a in single if y.shape[a] == 1]
        if not found:
            raise _unexpected(y, axis)
        y, axis = ft.squeeze(y, found[0]), axis - 1
    if y.ndim != 3 or axis == 0:
        raise _unexpected(y, axis)
    return y if axis == 1 else ft.swapaxes(y, 1, 2)


def _unexpected(y: ft.Array, axis: int) -> ft.ShapeError:
    return ft.ShapeError(
        f"[AcousticModel] the network gives {y.shape} with time on axis {axis}: expected (batch, "
        "steps, classes), or (1, batch, steps, classes) of an architecture file, which is {classes,"
        " steps, batch, 1} there"
    )
