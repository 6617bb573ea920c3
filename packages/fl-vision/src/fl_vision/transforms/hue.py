"""Hue: angles in the colour hexagon (Smith, 1978)."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_vision.transforms.pixels import like, planes_of


def turned_hue(image: ft.Tensor, shift: float) -> ft.Tensor:
    """(..., 3, H, W) with the hue of each pixel turned by `shift` of a circle."""
    planes = planes_of(image)
    made = np.empty_like(planes)
    shape = (len(planes) // 3, planes[0].size, 6.0 * shift)
    kernel = _turn_bytes if planes.dtype == np.uint8 else _turn_floats
    kernel(planes.reshape(-1), *shape, made.reshape(-1))
    return like(image, made)


@ft.kernel
def _sector(red: float, green: float, blue: float, value: float, extent: float) -> float:
    """The hue, from -1 to 5: red is 0, green 2 and blue 4."""
    if extent == 0.0:
        return 0.0
    if value == red:
        return (green - blue) / extent
    if value == green:
        return (blue - red) / extent + 2.0
    return (red - green) / extent + 4.0


@ft.kernel
def _channel(angle: float, value: float, extent: float) -> float:
    """The level of a channel at an angle of -2 to 13 from its own start."""
    while angle < 0.0:
        angle += 6.0
    while angle >= 6.0:
        angle -= 6.0
    return value - extent * min(max(min(angle, 4.0 - angle), 0.0), 1.0)


@ft.kernel
def _turn_bytes(
    x: Array[ft.uint8], images: int, area: int, shift: float, y: Array[ft.uint8]
) -> None:
    for image in range(images):
        red = 3 * image * area
        green = red + area
        blue = green + area
        for i in range(area):
            r = x[red + i] / 255.0
            g = x[green + i] / 255.0
            b = x[blue + i] / 255.0
            value = max(r, g, b)
            extent = value - min(r, g, b)
            hue = _sector(r, g, b, value, extent) + shift
            y[red + i] = int(_channel(hue + 5.0, value, extent) * 255.999)
            y[green + i] = int(_channel(hue + 3.0, value, extent) * 255.999)
            y[blue + i] = int(_channel(hue + 1.0, value, extent) * 255.999)


@ft.kernel
def _turn_floats(
    x: Array[ft.float32], images: int, area: int, shift: float, y: Array[ft.float32]
) -> None:
    for image in range(images):
        red = 3 * image * area
        green = red + area
        blue = green + area
        for i in range(area):
            r = x[red + i]
            g = x[green + i]
            b = x[blue + i]
            value = max(r, g, b)
            extent = value - min(r, g, b)
            hue = _sector(r, g, b, value, extent) + shift
            y[red + i] = _channel(hue + 5.0, value, extent)
            y[green + i] = _channel(hue + 3.0, value, extent)
            y[blue + i] = _channel(hue + 1.0, value, extent)
