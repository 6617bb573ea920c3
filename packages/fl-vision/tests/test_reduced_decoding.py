"""JPEGs decoded at a part of their size, while a crop keeps its resolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fl_tensor as ft
from fl_vision import ImageFolder, open_image, pixels_of
from fl_vision.errors import DataFileError
from fl_vision.transforms import (
    Compose,
    Normalise,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomResizedCrops,
    read_crop,
)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    levels = np.random.default_rng(0).integers(0, 256, (15, 20, 3)).astype(np.uint8)
    image = Image.fromarray(levels).resize((401, 299), Image.Resampling.BICUBIC)
    path = tmp_path / "photos" / "one" / "photo.jpg"
    path.parent.mkdir(parents=True)
    image.save(path, quality=95)
    return path


REDUCED = [(1, (299, 401)), (2, (150, 201)), (3, (150, 201)), (7, (75, 101)), (99, (38, 51))]


@pytest.mark.parametrize("factor, size", REDUCED)
def test_reductions_are_powers_of_2(photo: Path, factor: int, size: tuple[int, int]) -> None:
    requested = []

    def reduction(height: int, width: int) -> int:
        requested.append((height, width))
        return factor

    with open_image(photo, reduction=reduction) as image:
        assert (image.height, image.width) == size
    assert requested == [(299, 401)]


def test_other_formats_are_not_reduced(photo: Path) -> None:
    Image.open(photo).save(photo.with_suffix(".png"))
    with open_image(photo.with_suffix(".png"), reduction=lambda height, width: 8) as image:
        assert image.size == (401, 299)


@pytest.mark.parametrize("orientation", [1, 6])
def test_the_window_is_that_of_full_decoding(photo: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.open(photo).save(photo, quality=95, exif=exif)
    crop = RandomResizedCrop((32, 32), scale=(0.3, 1.0))
    with open_image(photo) as image:
        whole = image.copy()
    for seed in range(5):
        full = read_crop(photo, crop, seed, reduced=False)
        assert pixels_of(full).tolist() == pixels_of(crop(whole, seed)).tolist()
        reduced = pixels_of(read_crop(photo, crop, seed)).numpy().astype(int)
        # Pixels at the edges of a window differ most: filters reach across them.
        difference = np.abs(reduced - pixels_of(full).numpy())
        assert 0 < difference.mean() < 4
        assert difference.max() < 32


def test_no_crop_is_enlarged(photo: Path) -> None:
    crop = RandomResizedCrop((200, 200), scale=(0.5, 1.0))
    assert read_crop(photo, crop, 3).tobytes() == read_crop(photo, crop, 3, reduced=False).tobytes()


def test_crops_of_a_folder(photo: Path) -> None:
    for number in range(3):
        Image.open(photo).save(photo.with_name(f"{number}.jpg"))
    folder = ImageFolder(photo.parent.parent)
    chain = Compose((RandomHorizontalFlip(), Normalise((120.0,) * 3, (60.0,) * 3)))
    crops = RandomResizedCrops(folder, RandomResizedCrop((16, 24)), chain, seed=2)
    image, label = crops[0]
    assert image.shape == (3, 16, 24)
    assert image.dtype == ft.float32
    assert label.item() == 0
    assert crops[0][0].tolist() == image.tolist()
    assert crops[1][0].tolist() != image.tolist()
    crops.set_epoch(1)
    assert crops[0][0].tolist() != image.tolist()


def test_normalised_pictures_have_the_bits_of_normalised_tensors(photo: Path) -> None:
    normalise = Normalise((123.7, 116.3, 103.5), (58.4, 57.1, 57.4))
    with open_image(photo) as image:
        assert normalise(image).tolist() == normalise(pixels_of(image)).tolist()


def test_damaged_files_are_said(photo: Path) -> None:
    photo.write_bytes(photo.read_bytes()[:3000])
    with pytest.raises(DataFileError, match="photo.jpg: damaged or cut off"):
        read_crop(photo, RandomResizedCrop((16, 16)), 0)
