"""Image files and folders of them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import fl_tensor as ft
from fl_vision import (
    DataFileError,
    DataMissingError,
    DataOptions,
    ImageFolder,
    RandomCrops,
    UsageError,
    load_dataset,
    read_image,
)

ImageWriter = Callable[..., Path]


def test_an_image_is_channels_height_width(write_image: ImageWriter) -> None:
    image = read_image(write_image("a.png", (1, 2, 3), size=(4, 7)))
    assert image.dtype == ft.uint8
    assert image.shape == (3, 4, 7)
    assert [int(image[c, 0, 0].item()) for c in range(3)] == [1, 2, 3]


def test_rows_are_rows(tmp_path: Path) -> None:
    picture = Image.new("L", (3, 2))
    picture.putpixel((2, 0), 200)
    picture.save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png", grayscale=True)
    assert found.tolist() == [[[0, 0, 200], [0, 0, 0]]]


def test_grayscale_and_size(write_image: ImageWriter) -> None:
    image = read_image(write_image("a.jpg", (80, 80, 80), size=(9, 7)), size=(3, 5), grayscale=True)
    assert image.shape == (1, 3, 5)
    assert abs(int(image[0, 1, 1].item()) - 80) <= 2


def test_sixteen_bit_levels_are_scaled_not_clipped(tmp_path: Path) -> None:
    Image.new("I;16", (2, 2), 0x8000).save(tmp_path / "deep.png")
    assert read_image(tmp_path / "deep.png", grayscale=True)[0, 0, 0].item() == 0x80


# What EXIF 2.3 (4.6.4, Orientation) says of the stored rows [[1, 2, 3], [4, 5, 6]].
UPRIGHT = {
    1: [[1, 2, 3], [4, 5, 6]],
    2: [[3, 2, 1], [6, 5, 4]],
    3: [[6, 5, 4], [3, 2, 1]],
    4: [[4, 5, 6], [1, 2, 3]],
    5: [[1, 4], [2, 5], [3, 6]],
    6: [[4, 1], [5, 2], [6, 3]],
    7: [[6, 3], [5, 2], [4, 1]],
    8: [[3, 6], [2, 5], [1, 4]],
}


@pytest.fixture
def turned(tmp_path: Path) -> Callable[[int], Path]:
    """turned(orientation) -> path of a picture with the levels 1 to 6, stored in two rows."""

    def write(orientation: int) -> Path:
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = tmp_path / "photos" / f"{orientation}.png"
        path.parent.mkdir(exist_ok=True)
        Image.frombytes("L", (3, 2), bytes(range(1, 7))).save(path, exif=exif)
        return path

    return write


@pytest.mark.defect("P9")
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_images_are_turned_as_exif_says(turned: Callable[[int], Path], orientation: int) -> None:
    path = turned(orientation)
    assert read_image(path, grayscale=True).tolist() == [UPRIGHT[orientation]]
    assert read_image(path, grayscale=True, upright=False).tolist() == [UPRIGHT[1]]
    colours = read_image(path)
    assert [colours[channel].tolist() for channel in range(3)] == [UPRIGHT[orientation]] * 3


@pytest.mark.defect("P9")
def test_folders_and_crops_are_turned_too(turned: Callable[[int], Path]) -> None:
    root = turned(6).parent.parent
    folder = ImageFolder(root, grayscale=True)
    stored = ImageFolder(root, grayscale=True, upright=False)
    assert (folder.size, stored.size) == ((3, 2), (2, 3))
    assert RandomCrops(folder, (3, 2), flip=False)[0][0].tolist() == [UPRIGHT[6]]
    assert RandomCrops(stored, (2, 3), flip=False)[0][0].tolist() == [UPRIGHT[1]]


@pytest.mark.defect("P9")
@pytest.mark.parametrize("orientation", [0, 9, 65_535])
def test_an_orientation_that_there_is_not_turns_nothing(
    turned: Callable[[int], Path], orientation: int
) -> None:
    assert read_image(turned(orientation), grayscale=True).tolist() == [UPRIGHT[1]]


@pytest.mark.defect("P9")
@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_turns_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    for exif in (b"Exif\0\0", b"Exif\0\0II*\0", b"Exif\0\0MM\0*\xff\xff\xff\xff", bytes(40)):
        Image.new("L", (3, 2), 9).save(path, exif=exif)
        assert read_image(path, grayscale=True).shape == (1, 2, 3)


@pytest.mark.parametrize("keep", [8, 30, 60])
def test_a_truncated_image_names_the_file(write_image: ImageWriter, keep: int) -> None:
    path = write_image("cut.png", size=(64, 64))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataFileError, match=r"cut\.png.*; replace the file, or remove it"):
        read_image(path)


def test_no_image_at_all(tmp_path: Path) -> None:
    path = tmp_path / "text.png"
    path.write_text("this is no image")
    with pytest.raises(DataFileError, match=r"text\.png: not an image of a known format"):
        read_image(path)


@pytest.mark.parametrize("side", [8_000, 60_000])
def test_a_small_file_that_unpacks_to_a_huge_picture(tmp_path: Path, side: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path = tmp_path / "bomb.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )
    with pytest.raises(DataFileError, match=r"bomb\.png: .*pixels, the limit is 50000000"):
        read_image(path)


def test_a_missing_image(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=r"none\.png: no such file"):
        read_image(tmp_path / "none.png")


def test_classes_are_the_sorted_sub_folders(tmp_path: Path, write_image: ImageWriter) -> None:
    for name in ("b/2.png", "b/1.png", "a/deep/x.PNG", "c/1.bmp", "a/.hidden.png", ".git/1.png"):
        write_image(name)
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    folder = ImageFolder(tmp_path)
    assert folder.classes == ("a", "b", "c")
    assert [path.name for path in folder.paths] == ["x.PNG", "1.png", "2.png", "1.bmp"]
    assert len(folder) == 4
    assert [int(folder[i][1].item()) for i in range(4)] == [0, 1, 1, 2]
    with pytest.raises(IndexError, match="out of range for 4 samples"):
        folder[4]


def test_images_of_several_sizes_need_a_size(tmp_path: Path, write_image: ImageWriter) -> None:
    write_image("a/1.png", size=(6, 5))
    write_image("b/1.png", size=(6, 9))
    with pytest.raises(DataFileError, match=r"is 6 x 9, .* is 6 x 5; give --image-size HxW"):
        ImageFolder(tmp_path)[1]
    sized = ImageFolder(tmp_path, size=(4, 4))
    assert [sized[i][0].shape for i in range(2)] == [(3, 4, 4)] * 2


def test_an_empty_class_is_an_error(tmp_path: Path, write_image: ImageWriter) -> None:
    write_image("a/1.png")
    (tmp_path / "b").mkdir()
    with pytest.raises(DataMissingError, match="b: no image in this class"):
        ImageFolder(tmp_path)


def test_a_folder_without_classes(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="no sub-folders; make one per class"):
        ImageFolder(tmp_path)
    with pytest.raises(DataMissingError, match="absent"):
        ImageFolder(tmp_path / "absent")


def test_train_and_test_folders_are_taken_as_they_are(
    tmp_path: Path, write_image: ImageWriter
) -> None:
    for name in ("train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "test/dog/1.png"):
        write_image(name)
    data = load_dataset("folder", DataOptions(data_dir=tmp_path))
    assert (len(data.train), len(data.test)) == (3, 1)
    assert data.classes == ("cat", "dog")
    assert int(data.test[0][1].item()) == 1
    assert data.image_shape == (3, 6, 5)


def test_a_test_class_that_was_never_trained(tmp_path: Path, write_image: ImageWriter) -> None:
    for name in ("train/cat/1.png", "train/dog/1.png", "test/cow/1.png"):
        write_image(name)
    with pytest.raises(UsageError, match="the class 'cow', which is not among cat, dog"):
        load_dataset("folder", DataOptions(data_dir=tmp_path))


def test_otherwise_the_split_keeps_the_classes_in_proportion(
    tmp_path: Path, write_image: ImageWriter
) -> None:
    for index in range(10):
        write_image(f"a/{index}.png")
        write_image(f"b/{index}.png")
    data = load_dataset("folder", DataOptions(data_dir=tmp_path, grayscale=True))
    assert data.image_shape == (1, 6, 5)
    assert [int(data.test[i][1].item()) for i in range(len(data.test))] == [0, 0, 1, 1]
    assert len(data.train) == 16
