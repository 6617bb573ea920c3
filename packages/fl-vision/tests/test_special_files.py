"""Links are written through; what is no regular file is neither read nor replaced."""

from __future__ import annotations

import pytest
from PIL import Image

import fl_vision as vision
from fl_vision.draw.canvas import Canvas

READERS = {"read_image": vision.read_image, "read_idx": vision.read_idx}


@pytest.mark.defect("V13")
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_fifo_is_not_read(read, fifo):
    with pytest.raises(vision.DataFileError, match="it is a FIFO, not a regular file"):
        read(fifo)


@pytest.mark.defect("V14")
def test_a_picture_is_written_through_a_link_and_to_no_fifo(tmp_path, fifo):
    canvas = Canvas(20, 10)
    (tmp_path / "link.png").symlink_to("target.png")
    canvas.save(tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()
    with Image.open(tmp_path / "target.png") as found:
        assert found.size == (20, 10)
    with pytest.raises(vision.DataFileError, match="it is a FIFO, not a regular file"):
        canvas.save(fifo)
