"""Kernel of COCO's matching of detections and objects of an image."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

from typing import NamedTuple

import fl_tensor as ft
from fl_tensor.kernels import Array


class Image(NamedTuple):
    """Detections and objects of one image, sorted by class; detections of a class by score."""

    detection_ends: Array[ft.int64]
    """For each class the end of its detections; they begin where those before end."""
    object_ends: Array[ft.int64]
    detection_areas: Array[ft.float64]
    object_areas: Array[ft.float64]
    ignore: Array[ft.uint8]
    crowd: Array[ft.uint8]
    iou: Array[ft.float64]
    """For each class a matrix of its detections by its objects, one after the other."""


@ft.kernel
def best_object(
    image: Image,
    at: int,
    first: int,
    last: int,
    low: float,
    high: float,
    ignored: bool,
    threshold: float,
    taken: Array[ft.uint8],
) -> int:
    """The free object with the largest IoU of at least ``threshold``, the last of equal ones, or
    -1; among those that count, or those that are ignored. The row of IoU begins at ``at``."""
    best = -1
    most = threshold
    for g in range(first, last):
        area = image.object_areas[g]
        left_out = image.ignore[g] != 0 or area < low or area > high
        if left_out != ignored or (taken[g] != 0 and image.crowd[g] == 0):
            continue
        value = image.iou[at + g - first]
        if value >= most:
            most = value
            best = g
    return best


@ft.kernel
def match_image(
    image: Image,
    thresholds: Array[ft.float64],
    area_ranges: Array[ft.float64],
    taken: Array[ft.uint8],
    matched: Array[ft.int64],
    ignored: Array[ft.int64],
) -> None:
    """Sets bit ``range * len(thresholds) + threshold`` of ``matched`` for detections that have an
    object, and of ``ignored`` for those that do not count."""
    ranges = len(area_ranges) // 2
    levels = len(thresholds)
    for r in range(ranges):
        low = area_ranges[2 * r]
        high = area_ranges[2 * r + 1]
        for t in range(levels):
            bit = 1 << (r * levels + t)
            threshold = min(thresholds[t], 1.0 - 1e-10)
            for g in range(len(taken)):
                taken[g] = 0
            d = 0
            first = 0
            at = 0
            for k in range(len(image.object_ends)):
                last = image.object_ends[k]
                while d < image.detection_ends[k]:
                    found = best_object(image, at, first, last, low, high, False, threshold, taken)
                    outside = False
                    if found < 0:
                        found = best_object(
                            image, at, first, last, low, high, True, threshold, taken
                        )
                        outside = found >= 0
                    if found >= 0:
                        taken[found] = 1
                        matched[d] |= bit
                    else:
                        area = image.detection_areas[d]
                        outside = area < low or area > high
                    if outside:
                        ignored[d] |= bit
                    at += last - first
                    d += 1
                first = last
