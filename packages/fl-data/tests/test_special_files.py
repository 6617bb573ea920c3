"""Links are written through; what is no regular file is neither read nor replaced."""

from __future__ import annotations

import os

import pytest

import fl_data as data
import fl_tensor as ft

READERS = {
    "FileBlob": data.FileBlob,
    "MappedArray.npy": data.MappedArray.npy,
    "MappedArray": lambda path: data.MappedArray(path, ft.float32, (2,), 0),
}
WRITERS = {
    "FileBlob w": lambda path: data.FileBlob(path, "w"),
    "FileBlob a": lambda path: data.FileBlob(path, "a"),
    "FileBlob.repair": data.FileBlob.repair,
}


@pytest.mark.defect("V13")
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_fifo_is_not_read(read, fifo):
    with pytest.raises(data.FileFormatError, match="it is a FIFO, not a regular file"):
        read(fifo)


@pytest.mark.defect("V14")
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_fifo_is_not_written(write, fifo):
    with pytest.raises(data.BlobError, match="it is a FIFO, not a regular file"):
        write(fifo)


@pytest.mark.parametrize("mode", [pytest.param("w", marks=pytest.mark.defect("V14")), "a"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_blob_is_written_through_a_link(tmp_path, mode, exists):
    target, link = tmp_path / "target", tmp_path / "link"
    if exists:
        with data.FileBlob(target, "w") as blob:
            blob.add((ft.ones(3),))
    link.symlink_to("target")
    with data.FileBlob(link, mode) as blob:
        blob.add((ft.ones(3),))
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "target"]
    assert len(data.FileBlob(target)) == (2 if exists and mode == "a" else 1)
