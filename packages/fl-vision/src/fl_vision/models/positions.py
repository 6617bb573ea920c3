"""Positions of pixels: sines and cosines of rows and columns.

Parmar et al., Image Transformer, 2018; Carion et al., 2020, with rows and columns counted from the
image inside its padding.
"""

from __future__ import annotations

import math

import fl_nn as nn
import fl_tensor as ft
from fl_vision.errors import UsageError


class SinePositions2D(nn.Module):
    """Which pixels of (N, height, width) belong to the image, as bools, gives positions
    (N, height * width, size): one half of the features for the row, one for the column.

    With t the number of rows down to the pixel, divided by the rows of the image and times `scale`
    if `normalise`, and i from 0 to size / 4:

        feature 2i is sin(t / temperature^(4i / size)), feature 2i + 1 the cos of the same

    Raises `UsageError` for a size that does not divide by 4.
    """

    def __init__(
        self,
        size: int,
        temperature: float = 10000.0,
        normalise: bool = True,
        scale: float = 2 * math.pi,
    ) -> None:
        if size < 4 or size % 4 or not 0.0 < temperature < math.inf or not 0 < scale < math.inf:
            raise UsageError(
                f"[SinePositions2D] size {size}, temperature {temperature}, scale {scale}: the size"
                " must divide by 4, and the others are above 0"
            )
        self.size, self.temperature, self.normalise = size, temperature, normalise
        self.scale = scale

    def forward(self, mask: ft.Array, dtype: ft.DType = ft.float32) -> ft.Array:
        if mask.ndim != 3 or mask.dtype is not ft.bool:
            raise ft.ShapeError(
                f"[SinePositions2D] mask {mask.shape} of {mask.dtype}: expected bools "
                "(N, height, width)"
            )
        # Half precision cannot count rows.
        wide = dtype if dtype.itemsize >= 4 else ft.float32
        both = ft.concatenate([self._along(mask, axis, wide) for axis in (1, 2)], -1)
        return both.reshape(mask.shape[0], -1, self.size).astype(dtype)

    def _along(self, mask: ft.Array, axis: int, dtype: ft.DType) -> ft.Array:
        # (N, height, width, size / 2): of the row for axis 1, of the column for axis 2.
        count = ft.cumsum(mask.astype(dtype), axis)
        if self.normalise:
            last = count[:, -1:] if axis == 1 else count[:, :, -1:]
            count = count / (last + 1e-6) * self.scale
        quarter = self.size // 4
        rates = [self.temperature ** (-i / quarter) for i in range(quarter)]
        angles = ft.expand_dims(count, 3) * ft.asarray(rates, dtype, mask.device, mask.backend)
        return ft.stack([ft.sin(angles), ft.cos(angles)], -1).reshape(*mask.shape, 2 * quarter)

    def extra_repr(self) -> str:
        return f"{self.size}"


def reduce_mask(mask: ft.Array, height: int, width: int) -> ft.Array:
    """The bools (N, H, W) at another size (N, height, width): each is that of the pixel in whose
    place it is, row floor(i H / height) and column floor(j W / width)."""
    for axis, size in ((1, height), (2, width)):
        places = [place * mask.shape[axis] // size for place in range(size)]
        mask = ft.gather(mask, ft.asarray(places, ft.int64, mask.device, mask.backend), axis)
    return mask
