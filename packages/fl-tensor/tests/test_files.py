"""Files that users name: regular ones alone are read, links are written through."""

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
