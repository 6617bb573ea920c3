"""Kernels of run-length encoded masks.

Runs alternate between background and object, beginning with background, down the columns of the
image.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import fl_tensor as ft
from fl_tensor.kernels import Array


@ft.kernel
def runs_of(pixels: Array[ft.uint8], counts: Array[ft.int64]) -> int:
    """Writes the runs of pixels that are 0 or not, and returns their number."""
    number = 0
    inside = False
    run = 0
    for i in range(len(pixels)):
        if (pixels[i] != 0) != inside:
            counts[number] = run
            number += 1
            run = 0
            inside = not inside
        run += 1
    counts[number] = run
    return number + 1


@ft.kernel
def fill_runs(counts: Array[ft.int64], pixels: Array[ft.uint8]) -> None:
    """Sets the pixels of the object to 1. The counts add up to the number of pixels."""
    at = 0
    for k in range(len(counts)):
        if k % 2 == 1:
            for i in range(at, at + counts[k]):
                pixels[i] = 1
        at += counts[k]


@ft.kernel
def merge_runs(
    a: Array[ft.int64], b: Array[ft.int64], intersect: bool, merged: Array[ft.int64]
) -> int:
    """Writes the runs of the union or intersection of two masks of one size; their number."""
    i = 0
    j = 0
    left_a = a[0]
    left_b = b[0]
    in_a = False
    in_b = False
    inside = False
    run = 0
    number = 0
    while True:
        while left_a == 0 and i + 1 < len(a):
            i += 1
            left_a = a[i]
            in_a = not in_a
        while left_b == 0 and j + 1 < len(b):
            j += 1
            left_b = b[j]
            in_b = not in_b
        now = (in_a and in_b) if intersect else (in_a or in_b)
        step = min(left_a, left_b)
        if step == 0:
            merged[number] = run
            return number + 1
        if now != inside:
            merged[number] = run
            number += 1
            run = 0
            inside = now
        run += step
        left_a -= step
        left_b -= step
    return number


@ft.kernel
def common_pixels(
    a: Array[ft.int64], a_first: int, a_last: int, b: Array[ft.int64], b_first: int, b_last: int
) -> int:
    """Pixels of both masks, whose counts are ``a[a_first:a_last]`` and ``b[b_first:b_last]``."""
    total = 0
    i = a_first
    j = b_first
    end_a = 0
    end_b = 0
    low = 0
    while i < a_last and j < b_last:
        # The runs i and j begin at or before `low`, and one of them there.
        next_a = end_a + a[i]
        next_b = end_b + b[j]
        high = min(next_a, next_b)
        if (i - a_first) % 2 == 1 and (j - b_first) % 2 == 1:
            total += high - low
        low = high
        if next_a == high:
            end_a = next_a
            i += 1
        if next_b == high:
            end_b = next_b
            j += 1
    return total


@ft.kernel
def overlaps_of_runs(
    a: Array[ft.int64],
    a_ends: Array[ft.int64],
    a_areas: Array[ft.int64],
    b: Array[ft.int64],
    b_ends: Array[ft.int64],
    b_areas: Array[ft.int64],
    crowd: Array[ft.uint8],
    iou: Array[ft.float64],
) -> None:
    """Writes the IoU of each mask of ``a`` with each of ``b``; for crowds the share of ``a`` that
    lies inside."""
    others = len(b_ends)
    first = 0
    for i in range(len(a_ends)):
        start = 0
        for j in range(others):
            common = common_pixels(a, first, a_ends[i], b, start, b_ends[j])
            start = b_ends[j]
            union = a_areas[i] if crowd[j] else a_areas[i] + b_areas[j] - common
            iou[i * others + j] = (common / union) if common > 0 else 0.0
        first = a_ends[i]


@ft.kernel
def outline(
    x: Array[ft.int64], y: Array[ft.int64], us: Array[ft.int64], vs: Array[ft.int64]
) -> int:
    """Writes the points of a closed polygon with whole coordinates, at every step of the longer
    side of each edge; their number. Slopes start at the end with the lower coordinate."""
    number = 0
    for k in range(len(x)):
        after = k + 1 if k + 1 < len(x) else 0
        wide = abs(x[after] - x[k])
        high = abs(y[after] - y[k])
        flat = wide >= high
        turned = x[k] > x[after] if flat else y[k] > y[after]
        low = after if turned else k
        top = k if turned else after
        steps = wide if flat else high
        slope = 0.0
        if steps > 0:
            slope = ((y[top] - y[low]) if flat else (x[top] - x[low])) / steps
        for d in range(steps + 1):
            t = steps - d if turned else d
            if flat:
                us[number] = x[low] + t
                vs[number] = int(y[low] + slope * t + 0.5)
            else:
                us[number] = int(x[low] + slope * t + 0.5)
                vs[number] = y[low] + t
            number += 1
    return number


@ft.kernel
def crossings(
    us: Array[ft.int64],
    vs: Array[ft.int64],
    number: int,
    scale: int,
    height: int,
    width: int,
    places: Array[ft.int64],
) -> int:
    """Writes the pixels, counted down the columns, at which an outline that is ``scale`` times as
    large crosses the centre of a column; their number."""
    found = 0
    for j in range(1, number):
        if us[j] == us[j - 1]:
            continue
        left = us[j] if us[j] < us[j - 1] else us[j] - 1
        # The centre of column c is at scale * c + (scale - 1) / 2; scale is odd.
        from_centre = left - (scale - 1) // 2
        if from_centre % scale != 0:
            continue
        column = from_centre // scale
        if column < 0 or column > width - 1:
            continue
        row = (min(vs[j], vs[j - 1]) + 0.5) / scale - 0.5
        row = min(max(row, 0.0), float(height))
        above = int(row)
        places[found] = column * height + above + (1 if row > above else 0)
        found += 1
    return found


@ft.kernel
def read_text(text: Array[ft.uint8], counts: Array[ft.int64]) -> int:
    """Writes the counts of COCO's compressed text; their number, or -1 for what is none."""
    number = 0
    at = 0
    while at < len(text):
        value = 0
        shift = 0
        while True:
            if at >= len(text) or shift > 55:
                return -1
            symbol = text[at] - 48
            at += 1
            if symbol < 0 or symbol > 63:
                return -1
            value = value | ((symbol & 31) << shift)
            shift += 5
            if (symbol & 32) == 0:
                if symbol & 16:
                    value -= 1 << shift
                break
        if number > 2:
            value += counts[number - 2]
        if value < 0:
            return -1
        counts[number] = value
        number += 1
    return number


@ft.kernel
def write_text(counts: Array[ft.int64], text: Array[ft.uint8]) -> int:
    """Writes COCO's compressed text of counts: differences to the count before the last, five bits
    a character; its length."""
    at = 0
    for k in range(len(counts)):
        value = counts[k]
        if k > 2:
            value -= counts[k - 2]
        more = True
        while more:
            symbol = value & 31
            value = value >> 5
            more = value != -1 if symbol & 16 else value != 0
            text[at] = symbol + (32 if more else 0) + 48
            at += 1
    return at
