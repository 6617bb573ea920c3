"""Scenes: drawn pictures with exact boxes and masks."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest

import fl_tensor as ft
from fl_data import Batch
from fl_vision.datasets import CocoDetection, Scenes, detection_collate, write_coco


def test_boxes_are_the_bounds_of_masks():
    for _, target in Scenes(30, seed=2):
        assert 1 <= len(target) <= 6
        assert target.masks.shape == (len(target), 128, 128)
        for box, area, mask in zip(target.boxes.tolist(), target.areas.tolist(), target.masks):
            rows, columns = (ft.any(mask, axis=axis).tolist() for axis in (1, 0))
            ends = [128 - line[::-1].index(True) for line in (columns, rows)]
            assert box == [columns.index(True), rows.index(True), *ends]
            assert area == ft.sum(mask).item()


def test_masks_do_not_overlap_and_objects_have_their_colour():
    for image, target in Scenes(10, seed=3):
        assert ft.sum(target.masks.astype(ft.int32), axis=0).max().item() == 1
        for mask in target.masks:
            inside = ft.sum(mask).item()
            for channel in image.astype(ft.int64):
                mean = ft.sum(ft.where(mask, channel, ft.zeros_like(channel))).item() / inside
                spread = ft.where(mask, abs(channel - round(mean)), ft.zeros_like(channel))
                assert spread.max().item() <= 13  # a colour, and noise of 24 levels


def test_extents_and_all_classes_occur():
    seen, longest, shortest = set(), 0.0, 128.0
    for index in range(60):
        target = Scenes(60, seed=4).target(index)
        seen |= set(target.labels.tolist())
        if len(target) == 1:  # nothing covers it
            left, top, right, bottom = target.boxes.tolist()[0]
            assert right - left == bottom - top
            longest, shortest = max(longest, right - left), min(shortest, right - left)
    assert seen == set(range(5))
    assert 16 <= shortest < longest <= 64


def test_a_scene_depends_on_seed_and_index_alone():
    image, target = Scenes(9, seed=5)[7]
    again, other = Scenes(8, seed=5, cache_bytes=0)[7], Scenes(9, seed=6)[7]
    assert image.tolist() == again[0].tolist()
    assert target.boxes.tolist() == again[1].boxes.tolist()
    assert image.tolist() != other[0].tolist()


def test_scenes_are_the_same_on_every_platform():
    digest = hashlib.sha256()
    for image, target in Scenes(5, seed=0):
        digest.update(bytes(image.tobytes()) + repr(target.boxes.tolist()).encode())
    assert digest.hexdigest()[:16] == "f8f47059c9290f56"


def test_scenes_are_kept_and_pickled():
    ds = Scenes(3, seed=1)
    assert ds.target(1) is ds.target(1)
    copy = pickle.loads(pickle.dumps(ds))
    assert copy.image(2).tolist() == ds.image(2).tolist()
    assert Scenes(3, cache_bytes=0).target(1) is not None


def test_a_batch_and_other_sizes():
    images, mask, targets = Batch(Scenes(4, size=64), 4, collate=detection_collate)[0]
    assert (images.shape, mask.shape, len(targets)) == ((4, 3, 64, 64), (4, 64, 64), 4)
    with pytest.raises(ft.FlError, match="size"):
        Scenes(1, size=16)
    with pytest.raises(ft.FlError, match="size"):
        Scenes(1, size=5000)
    with pytest.raises(ft.FlError, match="count"):
        Scenes(-1)


def test_written_scenes_read_back(tmp_path):
    scenes = Scenes(4, seed=8)
    path = write_coco(scenes, tmp_path / "out")
    read = CocoDetection(path, tmp_path / "out" / "images", segmentations=True, rasterise=drawn)
    assert read.classes == Scenes.classes
    assert len(read) == 4
    for (image, target), (back, found) in zip(scenes, read, strict=True):
        assert back.tolist() == image.tolist()
        for name in ("boxes", "labels", "areas", "crowd", "masks"):
            assert getattr(found, name).tolist() == getattr(target, name).tolist()
    assert read.corrections.dropped == read.corrections.clamped == 0
    assert json.loads(path.read_text())["categories"][0] == {"id": 1, "name": "disk"}


def drawn(segmentation, size):
    """The mask of uncompressed runs, down the columns."""
    assert segmentation["size"] == list(size)
    flat = [number % 2 == 1 for number, n in enumerate(segmentation["counts"]) for _ in range(n)]
    return ft.asarray(flat).reshape(size[1], size[0]).T
