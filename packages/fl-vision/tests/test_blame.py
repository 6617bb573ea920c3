"""Errors about images name what is wrong: the call, the permission, the folder or the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import fl_vision as vision

REMOVE = "remove it"


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (3, 2)).save(path)
    return path


@pytest.mark.defect("P12")
@pytest.mark.parametrize("size", [64, (0, 64), (4, 4, 4), (4.0, 4), "64", (10**5, 10**5)])
def test_a_size_is_refused_before_any_image_is_read(tmp_path, size):
    picture(tmp_path / "a" / "1.png")
    with pytest.raises(vision.UsageError, match=r"expected \(height, width\), each at least 1"):
        vision.ImageFolder(tmp_path, size=size)


@pytest.mark.defect("P12")
def test_a_folder_is_no_damaged_image(tmp_path):
    with pytest.raises(vision.DataFileError, match="it is a folder") as caught:
        vision.read_image(tmp_path)
    assert "give the path of an image file" in str(caught.value)
    assert REMOVE not in str(caught.value)


@pytest.mark.defect("P12")
def test_permissions_are_named(without_rights):
    path = picture(without_rights / "in" / "1.png")
    path.chmod(0)
    with pytest.raises(vision.DataFileError, match="Permission denied.*; check its permissions"):
        vision.read_image(path)
    path.chmod(0o600)
    path.parent.chmod(0)
    with pytest.raises(vision.DataFileError, match="Permission denied.*; check its permissions"):
        vision.read_image(path)


@pytest.mark.defect("P12")
@pytest.mark.parametrize("mistake", [TypeError, ValueError, OSError, IndexError])
def test_mistakes_of_the_caller_are_no_damage(tmp_path, mistake):
    path = picture(tmp_path / "1.png")
    with pytest.raises(mistake, match="^mine$"), vision.open_image(path):
        raise mistake("mine")


@pytest.mark.defect("P8")
@pytest.mark.parametrize("mode", [0, 0o300, 0o600])
@pytest.mark.parametrize("place", ["cat", "cat/deep"])
def test_a_folder_that_may_not_be_read_is_an_error(without_rights, mode, place):
    picture(without_rights / "dog" / "1.png")
    picture(without_rights / "cat" / "1.png")
    hidden = picture(without_rights / place / "2.png").parent
    hidden.chmod(mode)
    with pytest.raises(vision.DataFileError, match=rf"{place}: unreadable folder \(Permission"):
        vision.ImageFolder(without_rights)
    hidden.chmod(0o500)
    assert len(vision.ImageFolder(without_rights)) == 3


@pytest.mark.defect("P8")
def test_hidden_folders_are_not_looked_into(without_rights):
    picture(without_rights / "cat" / "1.png")
    picture(without_rights / "cat" / ".trash" / "2.png").parent.chmod(0)
    assert len(vision.ImageFolder(without_rights)) == 1
