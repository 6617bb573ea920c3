"""Boxes and masks move along with their image."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fl_tensor as ft
from fl_vision.errors import ImageError
from fl_vision.transforms import (
    Affine,
    AnnotatedImage,
    Brightness,
    CenterCrop,
    Compose,
    Crop,
    FixedTransform,
    HorizontalFlip,
    Pad,
    RandomHorizontalFlip,
    RandomSelect,
    RandomSizeCrop,
    Resize,
    ResizeShortestSide,
    Rotate,
    ShearX,
    TranslateX,
    TranslateY,
    VerticalFlip,
    detection_evaluation,
    detection_training,
    picture_of,
)


def scene(*boxes: tuple[int, int, int, int], height: int = 40, width: int = 60) -> AnnotatedImage:
    """White rectangles on black: boxes and masks are exact."""
    masks = np.zeros((len(boxes), height, width), np.uint8)
    for mask, (x0, y0, x1, y1) in zip(masks, boxes, strict=True):
        mask[y0:y1, x0:x1] = 1
    image = np.repeat(masks.max(0, initial=0)[None] * 255, 3, 0).astype(np.uint8)
    return AnnotatedImage(
        image=ft.asarray(image),
        boxes=ft.asarray(np.asarray(boxes, np.float32).reshape(-1, 4)),
        labels=ft.arange(len(boxes)),
        masks=ft.asarray(masks),
        areas=ft.asarray(masks.sum((1, 2)).astype(np.float32)),
        crowd=ft.zeros((len(boxes),), ft.uint8),
        name="scene.png",
    )


def boxes_of(masks: np.ndarray) -> list[list[int]]:
    found = []
    for mask in masks:
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        found.append([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
    return found


EXACT: list[FixedTransform] = [
    HorizontalFlip(),
    VerticalFlip(),
    Crop(5, 8, 20, 30),
    CenterCrop((30, 50)),
    Pad(1, 2, 3, 4),
    Resize((80, 120)),
    Resize((80, 180), "nearest"),
    ResizeShortestSide(80),
    TranslateX(5.0),
    TranslateY(-7.0),
    Rotate(180.0),
]


@pytest.mark.parametrize("transform", EXACT, ids=str)
def test_boxes_are_those_of_masks_and_masks_those_of_the_image(transform: FixedTransform) -> None:
    before = scene((12, 8, 30, 20), (10, 10, 14, 13))
    after = transform(before)
    assert after.masks is not None
    masks = after.masks.numpy()
    assert np.abs(after.boxes.numpy() - boxes_of(masks)).max() < 1e-4
    image = after.image
    assert isinstance(image, ft.Tensor)
    assert ((image.numpy()[0] > 127) == masks.max(0)).all()
    assert after.labels.tolist() == [0, 1]
    assert after.dropped == 0


@pytest.mark.parametrize(
    "transform", [Rotate(20.0), ShearX(0.2), Affine(-10.0, scale=0.8)], ids=str
)
def test_boxes_of_turned_objects_hold_their_masks(transform: FixedTransform) -> None:
    after = transform(scene((20, 12, 40, 26)))
    assert after.masks is not None
    (found,), (box,) = boxes_of(after.masks.numpy()), after.boxes.tolist()
    assert all(abs(a - b) <= 1.0 for a, b in zip(found, box, strict=True))


def test_what_a_crop_leaves_nothing_of_is_dropped_and_counted() -> None:
    before = scene((0, 0, 10, 10), (20, 20, 30, 30), (50, 30, 60, 40))
    after = Crop(15, 15, 20, 20)(before)
    assert after.boxes.tolist() == [[5.0, 5.0, 15.0, 15.0]]
    assert after.labels.tolist() == [1]
    assert after.crowd is not None
    assert after.crowd.shape == (1,)
    assert after.masks is not None
    assert after.masks.shape == (1, 20, 20)
    assert after.dropped == 2
    assert Crop(0, 0, 2, 2)(after).dropped == 3


def test_boxes_are_cut_at_the_edges() -> None:
    after = Crop(15, 25, 20, 20)(scene((20, 20, 30, 30)))
    assert after.boxes.tolist() == [[0.0, 5.0, 5.0, 15.0]]


def test_areas_grow_with_the_image() -> None:
    after = Resize((80, 180))(scene((10, 10, 20, 20)))
    assert after.areas is not None
    assert after.areas.tolist() == [pytest.approx(600.0)]


def test_colour_leaves_boxes_as_they_are() -> None:
    before = scene((10, 10, 20, 20))
    after = Brightness(0.5)(before)
    assert after.boxes is before.boxes
    assert after.image.numpy().max() == 127  # type: ignore[union-attr]


def test_an_image_without_objects() -> None:
    before = scene()
    for transform in (*EXACT, Rotate(20.0)):
        after = transform(before)
        assert after.boxes.shape == (0, 4)
        assert after.masks is not None
        assert after.masks.shape == (0, *after.image.shape[-2:])  # type: ignore[union-attr]


def test_pictures_have_boxes_too() -> None:
    before = scene((10, 10, 20, 20))
    assert isinstance(before.image, ft.Tensor)
    after = HorizontalFlip()(before.replace(image=picture_of(before.image)))
    assert after.boxes.tolist() == [[40.0, 10.0, 50.0, 20.0]]


def test_the_chain_of_detr() -> None:
    before = scene((12, 8, 30, 20), (40, 30, 50, 39))
    chain = detection_training((32, 48), 80, (40, 50), (24, 40))
    sizes = set()
    for seed in range(30):
        after = chain(before, seed)
        height, width = after.image.shape[-2:]  # type: ignore[union-attr]
        assert min(height, width) in (32, 48) or max(height, width) == 80
        assert max(height, width) <= 80
        assert after.boxes.shape[0] + after.dropped == 2
        sizes.add((height, width))
    assert len(sizes) > 5
    assert detection_training().transforms[0] == RandomHorizontalFlip()
    select = detection_training().transforms[1]
    assert isinstance(select, RandomSelect)
    assert select.first.sizes == tuple(range(480, 801, 32))  # type: ignore[attr-defined]
    assert isinstance(select.second, Compose)
    assert select.second.transforms[1] == RandomSizeCrop(384, 600)
    assert detection_evaluation(48, 60)(before).image.shape == (3, 40, 60)  # type: ignore[union-attr]


NAN = float("nan")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"boxes": ft.asarray([[1.0, 2.0, NAN, 4.0]])}, "box 0 is .*nan"),
        ({"boxes": ft.asarray([[5.0, 2.0, 3.0, 4.0]])}, r"box 0 is \(5.0, 2.0, 3.0, 4.0\)"),
        ({"boxes": ft.zeros((1, 5))}, r"boxes \(1, 5\)"),
        ({"boxes": ft.zeros((1, 4), ft.int64)}, "of int64: give"),
        ({"labels": ft.zeros((2,), ft.int64)}, r"labels \(2,\) for 1 boxes"),
        ({"masks": ft.zeros((1, 4, 4), ft.uint8)}, r"masks \(1, 4, 4\) for 1 boxes in 40 x 60"),
        ({"image": ft.zeros((3, 0, 4))}, "empty image of 0 x 4"),
    ],
)
def test_what_does_not_fit_names_the_image(fields: dict[str, ft.Tensor], message: str) -> None:
    with pytest.raises(ImageError, match=rf"image scene.png\] .*{message}"):
        scene((10, 10, 20, 20)).replace(**fields)


def test_a_transform_that_fails_names_the_image() -> None:
    with pytest.raises(ImageError, match=r"\[Crop of scene.png\] rows 30 to 70") as caught:
        Crop(30, 0, 40, 40)(scene((1, 1, 3, 3)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
