"""Files that users name, and nested sequences that do not end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fl_tensor as ft
from fl_tensor import cache_files
from fl_tensor.files import open_regular, replacing


@pytest.mark.defect("V14")
def test_a_profile_is_written_through_a_link_and_to_no_fifo(tmp_path, fifo):
    with ft.profile() as profile:
        ft.ones(3) + 1.0
    (tmp_path / "link").symlink_to("trace.json")
    profile.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "trace.json").read_text()[0] in "[{"
    with pytest.raises(ft.FileError, match="fifo: it is a FIFO, not a regular file"):
        profile.save(fifo)


@pytest.mark.defect("V13")
def test_a_fifo_among_the_cached_files_counts_as_missing(fifo):
    assert cache_files.read(fifo) is None


def test_what_cannot_be_written_is_named_with_its_reason(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ft.FileError, match=r"file/below: cannot be written \(Not a directory\)"):
        with replacing(tmp_path / "file" / "below"):
            pass
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ft.FileError, match=r"a: cannot be written \(Too many levels"):
        with replacing(tmp_path / "a"):
            pass


def test_a_failure_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(KeyError), replacing(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("kind", ["folder", "device"])
def test_folders_and_devices_are_not_read(tmp_path, kind):
    path = tmp_path if kind == "folder" else Path(os.devnull)
    with pytest.raises(ft.FileError, match=f"it is a {kind}, not a regular file"):
        open_regular(path)


def own(*others):
    made = list(others)
    made.append(made)
    return made


def deep(levels, value=1.0):
    for _ in range(levels):
        value = [value]
    return value


ENDLESS = {
    "in itself": own(),
    "in itself twice": own(own()),
    "beside a tensor": own(ft.ones(2)),
    "2000 deep": deep(2000),
    "a tensor 2000 deep": deep(2000, ft.ones(2)),
}


@pytest.mark.defect("V13", "V18")
@pytest.mark.parametrize("nested", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize(
    "use", [ft.asarray, ft.stack, lambda x: ft.ones(3) + x, ft.ones(3).__getitem__]
)
def test_sequences_without_an_end_are_refused(nested, use, alarm):
    with pytest.raises(ft.ShapeError, match="nested more than 64 deep, or one contains itself"):
        use(nested)


@pytest.mark.defect("V18")
def test_a_shape_that_is_nested_deeply_is_refused():
    with pytest.raises(ft.DTypeError, match="expected ints"):
        ft.ones(deep(2000))


def test_as_many_axes_as_an_array_may_have():
    assert ft.asarray(deep(64)).shape == (1,) * 64
