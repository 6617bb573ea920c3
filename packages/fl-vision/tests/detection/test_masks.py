"""Run-length encoded masks."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_vision.detection import RLE, mask_iou, merge_masks

SQUARE = np.zeros((4, 5), np.uint8)
SQUARE[1:3, 2:4] = 1


def test_runs_go_down_the_columns():
    mask = RLE.encode(SQUARE)
    assert mask.counts.tolist() == [9, 2, 2, 2, 5]
    assert np.array_equal(mask.decode(), SQUARE)
    assert (mask.area, mask.box) == (4, (2, 1, 4, 3))
    assert RLE.encode(ft.asarray(SQUARE)).counts.tolist() == mask.counts.tolist()
    assert RLE.encode(np.ones((2, 2))).counts.tolist() == [0, 4]
    assert RLE.encode(np.zeros((2, 2))).box == (0, 0, 0, 0)
    assert RLE.encode(np.zeros((0, 3))).counts.tolist() == [0]


def test_text_both_ways():
    # Five bits a character, and differences to the count before the last from the fourth count on.
    assert RLE.encode(SQUARE).to_text() == "92203"
    assert RLE(10, 10, np.array([40, 60])).to_text() == "X1l1"
    rng = np.random.default_rng(0)
    for size in ((1, 1), (300, 400), (7, 3)):
        mask = RLE.encode(rng.random(size) < 0.01)
        again = RLE.from_text(mask.to_text(), *size)
        assert np.array_equal(again.counts, mask.counts)


def test_a_rectangle_as_polygon_covers_its_pixels():
    mask = RLE.from_polygons([[2, 1, 4, 1, 4, 3, 2, 3]], 4, 5)
    assert np.array_equal(mask.decode(), SQUARE)
    outside = RLE.from_polygons([[20, 10, 40, 10, 40, 30]], 4, 5)
    assert outside.area == 0


def test_annotations_of_coco():
    wanted = RLE.encode(SQUARE)
    size = [4, 5]
    for given in (
        [[2, 1, 4, 1, 4, 3, 2, 3]],
        {"size": size, "counts": [9, 2, 2, 2, 5]},
        {"size": size, "counts": wanted.to_text()},
        {"size": size, "counts": wanted.to_text().encode()},
    ):
        assert np.array_equal(RLE.from_coco(given, 4, 5).decode(), SQUARE)


def test_union_intersection_and_overlap():
    rng = np.random.default_rng(1)
    pixels = [rng.random((13, 9)) < p for p in (0.3, 0.6, 0.0, 1.0)]
    masks = [RLE.encode(p) for p in pixels]
    for a, x in zip(masks, pixels, strict=True):
        for b, y in zip(masks, pixels, strict=True):
            assert np.array_equal(merge_masks([a, b]).decode(), x | y)
            assert np.array_equal(merge_masks([a, b], intersect=True).decode(), x & y)
            both, whole = (x & y).sum(), (x | y).sum()
            assert mask_iou([a], [b]).item() == (both / whole if both else 0)
            assert mask_iou([a], [b], [True]).item() == (both / x.sum() if both else 0)
    assert mask_iou([], masks).shape == (0, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RLE(2, 2, np.array([1, 2])), "add up to 3 for 2 x 2 = 4"),
        (lambda: RLE(2, 2, np.array([5, -1])), "damaged"),
        (lambda: RLE(2, 2, np.array([2**62] * 4 + [4])), "damaged"),
        (lambda: RLE(1 << 20, 1 << 20, np.array([1 << 40])), "pixels: at most"),
        (lambda: RLE(1 << 40, 0, np.array([0])), "height"),
        (lambda: RLE.from_text("0" * 5 + "\x01", 2, 2), "no compressed mask"),
        (lambda: RLE.from_text("o" * 60, 2, 2), "no compressed mask"),
        (lambda: RLE.from_text("P" * 9, 2, 2), "no compressed mask"),
        (lambda: RLE.from_coco({"size": [3, 3], "counts": [9]}, 2, 2), r"\[3, 3\]"),
        (lambda: RLE.from_coco(3, 2, 2), "polygons, or"),
        (lambda: RLE.from_polygons([[1, 1, 2, 2]], 4, 4), "three points"),
        (lambda: RLE.from_polygons([[1, 1, 2, 2, 3, float("nan")]], 4, 4), "pixels of an image"),
        (lambda: RLE.from_polygons([[0, 0, 1e12, 0, 0, 1e12]], 4, 4), "pixels of an image"),
        (lambda: RLE.from_polygons([[0, 0, 1e7, 0, 0, 1e7]], 4, 4), "points, at most"),
        (lambda: RLE.from_polygons([], 4, 4), "at least one"),
        (lambda: merge_masks([]), "no masks"),
        (lambda: mask_iou([RLE.encode(SQUARE)], [RLE.encode(SQUARE.T)]), "4 x 5 .* 5 x 4"),
    ],
)
def test_damaged_masks_are_refused(call, message):
    with pytest.raises(ft.ArgumentError, match=message):
        call()
