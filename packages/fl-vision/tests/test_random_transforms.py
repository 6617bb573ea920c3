"""What random transforms draw: ranges, shares, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_data import RandomTransform, TensorDataset
from fl_vision import pixels_of
from fl_vision.errors import ImageError
from fl_vision.transforms import (
    Affine,
    ColorJitter,
    Compose,
    Crop,
    Draws,
    Erase,
    HorizontalFlip,
    ImageTransform,
    Invert,
    RandAugment,
    RandomAffine,
    RandomApply,
    RandomCrop,
    RandomErasing,
    RandomGaussianBlur,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomSelect,
    RandomSizeCrop,
    RandomVerticalFlip,
    Rotate,
    VerticalFlip,
    picture_of,
)
from fl_vision.transforms.rand_augment import OPERATIONS

IMAGE = ft.Generator(0).integers(0, 256, (3, 40, 50)).astype(ft.uint8)
RANDOM: list[ImageTransform] = [
    ColorJitter(0.4, 0.4, 0.4, 0.1),
    RandAugment(),
    RandomAffine(20.0, (0.1, 0.1), (0.8, 1.2), (-5.0, 5.0)),
    RandomApply(Invert()),
    RandomCrop((20, 20), padding=4),
    RandomErasing(1.0),
    RandomGaussianBlur(5),
    RandomGrayscale(0.5),
    RandomHorizontalFlip(),
    RandomVerticalFlip(),
    RandomResize((20, 30, 40)),
    RandomResizedCrop((16, 24)),
    RandomSelect(HorizontalFlip(), VerticalFlip()),
    RandomSizeCrop(10, 30),
    Compose((RandomResizedCrop((16, 24)), RandomHorizontalFlip(), RandAugment())),
]


def draws(seed: int = 0) -> Draws:
    return Draws("test", seed)


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_a_seed_determines_all_for_every_kind_of_image(transform: ImageTransform) -> None:
    found = set()
    for seed in range(12):
        changed = transform(IMAGE, seed)
        assert changed.tolist() == transform(IMAGE, ft.Generator(seed)).tolist()
        assert changed.tolist() == pixels_of(transform(picture_of(IMAGE), seed)).tolist()
        found.add(changed.numpy().tobytes())
    assert len(found) > 1


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_without_a_generator_nothing_is_drawn(transform: ImageTransform) -> None:
    with pytest.raises(ft.DTypeError, match="give an ft.Generator, or a seed"):
        transform(IMAGE)


def test_a_dataset_draws_by_seed_epoch_and_index() -> None:
    images = ft.stack([IMAGE] * 4)
    data = TensorDataset(images, ft.arange(4))
    crops = RandomTransform(data, RandomResizedCrop((8, 8)).on(0), seed=3)
    first = [crops[k][0].tolist() for k in range(4)]
    assert first == [crops[k][0].tolist() for k in range(4)]
    assert all(first[0] != other for other in first[1:])
    crops.set_epoch(1)
    assert first[0] != crops[0][0].tolist()


def test_windows_have_the_area_and_ratio_of_the_settings() -> None:
    crop = RandomResizedCrop((8, 8), scale=(0.2, 0.5), ratio=(0.5, 2.0))
    numbers = draws()
    windows = [crop.window(400, 300, numbers) for _ in range(500)]
    areas = np.asarray([w.height * w.width / (400 * 300) for w in windows])
    ratios = np.asarray([w.width / w.height for w in windows])
    assert 0.199 < areas.min() < 0.22
    assert 0.48 < areas.max() < 0.501
    assert 0.49 < ratios.min() < 0.55
    assert 1.8 < ratios.max() < 2.02
    assert np.abs(np.log(ratios).mean()) < 0.1
    for w in windows:
        assert 0 <= w.top <= 400 - w.height
        assert 0 <= w.left <= 300 - w.width


def test_a_window_that_fits_nowhere_is_the_largest_in_the_middle() -> None:
    crop = RandomResizedCrop((8, 8), scale=(1.0, 1.0))
    assert crop.window(10, 100, draws()) == Crop(0, 43, 10, 13)
    assert crop.window(100, 10, draws()) == Crop(43, 0, 13, 10)


def test_probabilities() -> None:
    numbers = draws()
    flips = [RandomHorizontalFlip(0.25).choose(4, 4, numbers) for _ in range(2000)]
    assert 0.22 < sum(flip is not None for flip in flips) / 2000 < 0.28
    erased = [RandomErasing(0.25).choose(50, 50, numbers) for _ in range(2000)]
    assert 0.22 < sum(erase is not None for erase in erased) / 2000 < 0.28
    shares = [e.height * e.width / 2500 for e in erased if isinstance(e, Erase)]
    assert 0.015 < min(shares) < 0.04
    assert 0.28 < max(shares) < 0.34


def test_draws_are_uniform_normal_and_whole_numbers() -> None:
    numbers = draws(5)
    uniform = np.asarray([numbers.uniform(2.0, 4.0) for _ in range(4000)])
    assert abs(uniform.mean() - 3.0) < 0.03
    assert abs(uniform.std() - 2.0 / np.sqrt(12)) < 0.02
    normal = np.asarray([numbers.normal(9.0, 0.5) for _ in range(4000)])
    assert abs(normal.mean() - 9.0) < 0.03
    assert abs(normal.std() - 0.5) < 0.02
    assert {numbers.integer(-1, 2) for _ in range(100)} == {-1, 0, 1, 2}


def test_randaugment_applies_half_of_its_operations_with_both_signs() -> None:
    numbers, augment = draws(), RandAugment(operations=2)
    chains = [augment.choose(30, 30, numbers) for _ in range(1000)]
    applied = [each for chain in chains for each in chain]  # type: ignore[attr-defined]
    assert 0.46 < len(applied) / 2000 < 0.54
    turns = [each.degrees for each in applied if isinstance(each, Rotate)]
    assert min(turns) < 0 < max(turns)
    assert all(18.0 < abs(turn) <= 30.0 for turn in turns)
    assert len({type(each) for each in applied}) == len(OPERATIONS) == 15


def test_no_operation_of_strength_0_moves_a_pixel() -> None:
    moved = {"auto_contrast", "equalize", "invert", "posterize"}
    for name in set(OPERATIONS) - moved:
        found = RandAugment(interpolation="bilinear").operation(name, 0.0, 40, 50)(IMAGE)
        assert found.tolist() == IMAGE.tolist(), name


def test_an_affine_map_that_does_nothing() -> None:
    for kind in ("nearest", "bilinear", "bicubic"):
        assert Affine(interpolation=kind)(IMAGE).tolist() == IMAGE.tolist()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: RandomResizedCrop((0, 4)), r"size \(0, 4\): give \(height, width\)"),
        (lambda: RandomResizedCrop((4, 4), (0.0, 1.0)), "scale"),
        (lambda: RandomResizedCrop((4, 4), ratio=(2.0, float("nan"))), "ratio"),
        (lambda: RandomCrop((41, 4))(IMAGE, 0), "40 x 50 for a window of 41 x 4"),
        (lambda: RandomErasing(1.5), "p 1.5"),
        (lambda: RandomResize(()), "give at least one"),
        (lambda: RandomSizeCrop(5, 4), "exchange"),
        (lambda: RandAugment(magnitude=11.0), "magnitude 11"),
        (lambda: RandAugment(interpolation="cubic"), "nearest, bilinear, bicubic"),
        (lambda: RandAugment()(ft.zeros((2, 3, 0)), 0), "empty image of 3 x 0 pixels"),
        (lambda: ColorJitter(hue=0.6), "hue 0.6"),
        (lambda: RandomAffine(float("nan")), "degrees nan"),
        (lambda: Affine(scale=0.0), "scale 0.0"),
        (lambda: Crop(10, 0, 31, 5)(IMAGE), "rows 10 to 41, columns 0 to 5 of an image of 40 x 50"),
        (lambda: Rotate(5.0, fill=(1.0, 2.0))(IMAGE), "for an image of 3 channels"),
    ],
)
def test_what_cannot_be_is_said(make: object, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        make()  # type: ignore[operator]


def test_what_is_no_image_is_said() -> None:
    flip = HorizontalFlip()
    with pytest.raises(ft.DTypeError, match="image of int64: give uint8 or floats"):
        flip(ft.zeros((3, 4, 4), ft.int64))
    with pytest.raises(ft.ShapeError, match=r"\(4, 4\): expected \(..., C, H, W\)"):
        flip(ft.zeros((4, 4)))
    with pytest.raises(ft.DTypeError, match="an image that is a list"):
        flip([1, 2])  # type: ignore[type-var]
    with pytest.raises(ImageError, match="mode RGBA: convert it to L or RGB"):
        flip(picture_of(IMAGE).convert("RGBA"))
    with pytest.raises(ImageError, match="image of 4 channels: give 1"):
        ColorJitter(saturation=0.5)(ft.zeros((4, 5, 5)), 0)
