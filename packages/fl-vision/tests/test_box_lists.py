"""BoxList and write_box_list: lists of images with boxes."""

from __future__ import annotations

import pytest
from boxed_images import write
from PIL import Image

from fl_vision import DataFileError, DataMissingError, UsageError
from fl_vision.datasets import BoxList, CocoDetection, Scenes, write_box_list


@pytest.fixture
def make(tmp_path):
    """make(text) -> the path of a list beside a.png (20 x 30) and b.png (10 x 10)."""
    for name, size in (("a.png", (30, 20)), ("b c.png", (10, 10))):
        Image.new("RGB", size, (9, 9, 9)).save(tmp_path / name)

    def written(text):
        path = tmp_path / "list.lst"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def test_a_line_is_an_image_with_its_boxes(make):
    ds = BoxList(make("a.png\t1 2 3.5 4 1\t0 0 30 20 0\n\nb c.png\n"), ["cat", "dog"])
    image, target = ds[0]
    assert image.shape == (3, 20, 30)
    assert target.boxes.tolist() == [[1, 2, 3.5, 4], [0, 0, 30, 20]]
    assert target.labels.tolist() == [1, 0]
    assert target.areas.tolist() == [5, 600]
    assert (target.original_size, target.image_id) == ((20, 30), "a")
    assert ds[1][1].boxes.shape == (0, 4)
    assert ds.classes == ("cat", "dog")
    assert BoxList(ds.source, 91).classes[90] == "90"


def test_max_side_and_root(make, tmp_path):
    path = make("a.png\t0 0 30 20 0")
    moved = tmp_path / "lists" / "list.lst"
    moved.parent.mkdir()
    path.replace(moved)
    image, target = BoxList(moved, 1, root=tmp_path, max_side=15)[0]
    assert image.shape == (3, 10, 15)
    assert target.boxes.tolist() == [[0, 0, 15, 10]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.png 1 2 3 4 0\t1 2 3 4", "line 1: '1 2 3 4' is no box; write: path"),
        ("a.png\t1 2 3 4 x", "is no box"),
        ("a.png\t1 2 3 nan 0", "is not finite"),
        ("a.png\t1 2 3 2 0", "has no area"),
        ("a.png\t3 2 1 4 0", "has no area"),
        ("a.png\t1 2 3 4 2", "unknown class; classes are 0 to 1"),
        ("a.png\t1 2 3 4 0.5", "unknown class"),
        ("a.png\t1 2 3 4 -1", "unknown class"),
        ("\t1 2 3 4 0", "has no path"),
        ("b c.png\na.png\na.png", "line 3: line 2 has this image already"),
        (b"a\xff.png", "no UTF-8"),
        ("a" * (1 << 20) + "b", "is longer than"),
    ],
)
def test_wrong_lines(make, line, message):
    with pytest.raises(DataFileError, match=message):
        BoxList(make(line), 2)


def test_wrong_lines_can_be_left_out(make):
    ds = BoxList(make("a.png\t1\nb c.png\n"), 2, on_error="skip")
    assert [path.name for path in ds.paths] == ["b c.png"]
    assert "line 1" in str(ds.skipped[0])


def test_a_box_outside_its_image_is_an_error_of_the_sample(make):
    ds = BoxList(make("b c.png\na.png\t1 2 31 4 0"), 2)
    assert ds[0][0].shape == (3, 10, 10)
    with pytest.raises(DataFileError, match=r"list.lst: line 2: the box .* is not inside .*a.png"):
        ds[1]


def test_missing_lists(tmp_path):
    with pytest.raises(DataMissingError, match="no such file"):
        BoxList(tmp_path / "none", 2)
    with pytest.raises(UsageError, match="'raise' or 'skip'"):
        BoxList(tmp_path / "none", 2, on_error="x")


def test_coco_becomes_a_list_without_crowds(tmp_path):
    ds = CocoDetection(*write(tmp_path / "coco"))
    assert write_box_list(tmp_path / "a.lst", ds, tmp_path / "coco") == (3, 2)
    lines = (tmp_path / "a.lst").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "bild_ü7.png"
    assert lines[1] == "bild_ü3.png\t10 2 30.5 12 1\t1 1 4 6 0"
    back = BoxList(tmp_path / "a.lst", ds.classes, root=tmp_path / "coco")
    assert [target.boxes.tolist() for _, target in back][1:] == [
        target.boxes.tolist() for _, target in ds
    ][1:]


def test_lists_are_of_image_files(tmp_path):
    with pytest.raises(UsageError, match="image files"):
        write_box_list(tmp_path / "a.lst", Scenes(1), tmp_path)
    ds = CocoDetection(*write(tmp_path / "coco"))
    ds.paths[0] = tmp_path / "a\tb"
    with pytest.raises(UsageError, match="tab or line break"):
        write_box_list(tmp_path / "a.lst", ds, tmp_path)
    assert not (tmp_path / "a.lst").exists()
