"""Random windows of image files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import fl_tensor as ft
from fl_data import Batch, DataError, Prefetch
from fl_vision import DataFileError, ImageFolder, RandomCrops, open_image, pixels_of, read_image


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """40 pictures of 6 x 9, whose pixel (y, x) has the colour (10 y, 10 x, number of the file)."""
    for number in range(40):
        image = Image.new("RGB", (9, 6))
        image.putdata([(10 * y, 10 * x, number) for y in range(6) for x in range(9)])
        path = tmp_path / "ab"[number % 2] / f"{number:02}.png"
        path.parent.mkdir(exist_ok=True)
        image.save(path)
    return tmp_path


def corner(window: ft.Tensor) -> tuple[int, int, bool]:
    """Where a window was, and whether it is mirrored."""
    rows, columns = window[0].tolist(), window[1].tolist()
    mirrored = columns[0][0] > columns[0][-1]
    top, left = rows[0][0] // 10, min(columns[0]) // 10
    line = [10 * (left + x) for x in range(len(columns[0]))]
    assert columns == [line[::-1] if mirrored else line] * len(columns)
    assert rows == [[10 * (top + y)] * len(line) for y in range(len(rows))]
    return top, left, mirrored


def test_every_window_comes_and_half_are_mirrored(folder: Path) -> None:
    crops = RandomCrops(ImageFolder(folder), (4, 8), seed=1)
    seen = []
    for epoch in range(10):
        crops.set_epoch(epoch)
        for index in range(40):
            window, label = crops[index]
            assert (window.shape, window.dtype, label.item()) == ((3, 4, 8), ft.uint8, index // 20)
            seen.append(corner(window))
    assert {place[:2] for place in seen} == {(y, x) for y in range(3) for x in range(2)}
    assert 150 < sum(mirrored for *_, mirrored in seen) < 250
    assert not any(
        corner(window)[2] for window, _ in RandomCrops(ImageFolder(folder), (4, 8), flip=False)
    )


def test_a_window_depends_on_seed_epoch_and_index_alone(folder: Path) -> None:
    def run(seed: int, epoch: int, threads: int = 0) -> list[object]:
        crops = RandomCrops(ImageFolder(folder), (2, 2), seed=seed)
        crops.set_epoch(epoch)
        return [x.tolist() for x, _ in Prefetch(Batch(crops, 7), threads=threads)]

    assert run(1, 0) == run(1, 0, threads=2)
    assert len({str(run(*key)) for key in [(1, 0), (1, 1), (2, 0)]}) == 3


def test_a_picture_that_is_too_small_is_named(folder: Path) -> None:
    crops = RandomCrops(ImageFolder(folder), (7, 7))
    with pytest.raises(DataFileError, match=r"00\.png.*is 6 x 9, the window is 7 x 7"):
        crops[0]


def test_an_opened_picture_has_the_pixels_that_are_read(folder: Path) -> None:
    path = next(folder.rglob("*.png"))
    for grayscale in (False, True):
        with open_image(path, grayscale=grayscale) as picture:
            assert pixels_of(picture).tolist() == read_image(path, grayscale=grayscale).tolist()


def test_a_size_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="height must be at least 1"):
        RandomCrops(ImageFolder(folder), (0, 3))
