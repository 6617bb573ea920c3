"""``Tempo``: in training, features of each recording a little slower or faster."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
import fl_tensor as ft

#: Results are padded to multiples of so many frames: compiled backends plan every shape once.
FRAMES = 32


class Tempo(nn.Module):
    """In training, stretches each sample of x (B, T, F) in time by a factor of its own; in
    evaluation, passes its input on.

    Logarithms of the factors are uniform in -`reach` .. `reach`, so that 0.15 makes recordings up
    to 16 % longer or 14 % shorter; values between frames are interpolated, first and last frame
    stay. A sample keeps at least two frames, or the one that it has. The numbers come from the
    module's own `generator` (split from the default one unless given).
    """

    takes_lengths = True

    def __init__(self, reach: float, *, generator: ft.Generator | None = None) -> None:
        self.reach = reach
        self.generator = generator or ft.default_generator().split(1)[0]

    def forward(self, x: ft.Array, lengths: Any = None) -> tuple[ft.Array, Any]:
        """The samples, with zeros behind the end of each, and how many frames are its own, int64
        (B,)."""
        batch, frames, size = x.shape
        if not self.training or not self.reach or not x.size:
            return x, lengths
        own = [frames] * batch if lengths is None else lengths
        own = ft.asarray(own, ft.int64, device=x.device)
        draw = self.generator.uniform(
            (batch,), -self.reach, self.reach, ft.float32, x.device, x.backend
        )
        wanted = ft.round(own.astype(ft.float32) * ft.exp(draw)).astype(ft.int64)
        counts = ft.maximum(wanted, ft.minimum(own, 2))
        longest = FRAMES * -(-math.ceil(max(2, frames) * math.exp(self.reach)) // FRAMES)
        places = ft.expand_dims(ft.arange(longest, dtype=ft.int64, device=x.device), 0)
        step = (own - 1).astype(ft.float32) / ft.maximum(counts - 1, 1).astype(ft.float32)
        source = places.astype(ft.float32) * ft.expand_dims(step, 1)
        last = ft.expand_dims(ft.maximum(own - 1, 0), 1)
        left = ft.minimum(ft.floor(source).astype(ft.int64), last)
        right = ft.minimum(left + 1, last)
        share = ft.expand_dims((source - left.astype(ft.float32)).astype(x.dtype), 2)
        share = ft.clip(share, 0.0, 1.0)
        low, high = (
            ft.take_along_axis(x, ft.broadcast_to(ft.expand_dims(i, 2), (batch, longest, size)), 1)
            for i in (left, right)
        )
        inside = ft.expand_dims(places < ft.expand_dims(counts, 1), 2)
        return ft.where(inside, low + share * (high - low), 0.0), counts
