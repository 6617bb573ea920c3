"""Kernels of non-maximum suppression."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math

import fl_tensor as ft
from fl_tensor.kernels import Array


@ft.kernel
def rounded(x: float, single: bool, scratch: Array[ft.float32]) -> float:
    """``x``, or its nearest float32.

    A sum, product or quotient of float32 numbers that is rounded from float64 is that of float32
    arithmetic, so decisions at a threshold are those of libraries that compute in float32.
    """
    if single:
        scratch[0] = x
        return scratch[0]
    return x


@ft.kernel
def overlap(
    boxes: Array[ft.float64],
    i: int,
    j: int,
    area_i: float,
    area_j: float,
    single: bool,
    scratch: Array[ft.float32],
) -> float:
    """IoU of two xyxy boxes; 0 if they do not meet."""
    a = 4 * i
    b = 4 * j
    width = min(boxes[a + 2], boxes[b + 2]) - max(boxes[a], boxes[b])
    height = min(boxes[a + 3], boxes[b + 3]) - max(boxes[a + 1], boxes[b + 1])
    if width <= 0.0 or height <= 0.0:
        return 0.0
    width = rounded(width, single, scratch)
    height = rounded(height, single, scratch)
    inter = rounded(width * height, single, scratch)
    union = rounded(rounded(area_i + area_j, single, scratch) - inter, single, scratch)
    return rounded(inter / union, single, scratch)


@ft.kernel
def box_areas(
    boxes: Array[ft.float64], single: bool, scratch: Array[ft.float32], areas: Array[ft.float64]
) -> None:
    """Writes the area of each xyxy box."""
    for i in range(len(areas)):
        width = rounded(boxes[4 * i + 2] - boxes[4 * i], single, scratch)
        height = rounded(boxes[4 * i + 3] - boxes[4 * i + 1], single, scratch)
        areas[i] = rounded(width * height, single, scratch)


@ft.kernel
def greedy_nms(
    boxes: Array[ft.float64],
    classes: Array[ft.int64],
    order: Array[ft.int64],
    threshold: float,
    single: bool,
    scratch: Array[ft.float32],
    areas: Array[ft.float64],
    removed: Array[ft.int8],
    kept: Array[ft.int64],
) -> int:
    """Writes the boxes that stay, in ``order``, and returns their number. ``removed`` is 0 for
    all boxes; boxes of different classes do not compete."""
    box_areas(boxes, single, scratch, areas)
    count = 0
    for k in range(len(order)):
        i = order[k]
        if removed[i]:
            continue
        kept[count] = i
        count += 1
        for m in range(k + 1, len(order)):
            j = order[m]
            if removed[j] or classes[i] != classes[j]:
                continue
            if overlap(boxes, i, j, areas[i], areas[j], single, scratch) > threshold:
                removed[j] = 1
    return count


@ft.kernel
def decay_nms(
    boxes: Array[ft.float64],
    scores: Array[ft.float64],
    gaussian: bool,
    threshold: float,
    sigma: float,
    least: float,
    scratch: Array[ft.float32],
    areas: Array[ft.float64],
    removed: Array[ft.int8],
    kept: Array[ft.int64],
    found: Array[ft.float64],
) -> int:
    """Soft-NMS: takes the box with the highest score, lowers the scores of those that overlap it,
    and so on while scores exceed ``least``. Writes boxes and scores, returns their number."""
    box_areas(boxes, False, scratch, areas)
    count = 0
    while True:
        best = -1
        for i in range(len(scores)):
            if removed[i] == 0 and scores[i] > least and (best < 0 or scores[i] > scores[best]):
                best = i
        if best < 0:
            return count
        removed[best] = 1
        kept[count] = best
        found[count] = scores[best]
        count += 1
        for i in range(len(scores)):
            if removed[i]:
                continue
            iou = overlap(boxes, best, i, areas[best], areas[i], False, scratch)
            if gaussian:
                scores[i] *= math.exp(-iou * iou / sigma)
            elif iou > threshold:
                scores[i] *= 1.0 - iou
    return count
