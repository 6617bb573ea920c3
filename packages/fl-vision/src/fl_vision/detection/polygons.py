"""Polygons as run lengths, with the rounding of pycocotools."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from fl_vision.detection.checks import host_values
from fl_vision.detection.masks_kernel import crossings, outline

#: Outlines are drawn so many times as large as the mask.
SCALE = 5
#: Points of an outline: more is taken for a damaged file.
MOST_POINTS = 1 << 24


def polygon_counts(polygon: Any, height: int, width: int) -> np.ndarray:
    """Run lengths, int64, of the inside of a polygon x1, y1, x2, y2, ..., at least three points.
    Raises ArgumentError."""
    where = "RLE.from_polygons"
    points = host_values(where, "a polygon", polygon)
    if points.ndim != 1 or len(points) < 6 or len(points) % 2:
        raise ft.ArgumentError(
            f"[{where}] a polygon of shape {points.shape}: expected x1, y1, x2, y2, ... of at "
            "least three points"
        )
    points = points.astype(np.float64)
    if not np.isfinite(points).all() or np.abs(points).max() > MOST_POINTS:
        raise ft.ArgumentError(f"[{where}] a polygon holds {points}: expected pixels of an image")
    whole = (SCALE * points + 0.5).astype(np.int64)  # towards 0, as pycocotools rounds
    x, y = np.ascontiguousarray(whole[::2]), np.ascontiguousarray(whole[1::2])
    steps = np.maximum(np.abs(np.roll(x, -1) - x), np.abs(np.roll(y, -1) - y)) + 1
    number = int(steps.sum())
    if number > MOST_POINTS:
        raise ft.ArgumentError(
            f"[{where}] the outline of a polygon has {number} points, at most {MOST_POINTS}: its "
            "coordinates are no pixels of an image"
        )
    us, vs, places = (np.empty(number, np.int64) for _ in range(3))
    outline(x, y, us, vs)
    found = crossings(us, vs, number, SCALE, height, width, places)
    # Inside and outside alternate at crossings; two at one place cancel.
    pixels, times = np.unique(places[:found], return_counts=True)
    pixels = pixels[times % 2 == 1]
    counts = np.diff(np.concatenate([[0], pixels, [height * width]]))
    if len(counts) > 1 and counts[-1] == 0:
        counts = counts[:-1]
    return counts.astype(np.int64)
