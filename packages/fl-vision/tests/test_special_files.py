"""What is no regular file is not read."""

from __future__ import annotations

import pytest

import fl_vision as vision

READERS = {"read_image": vision.read_image, "read_idx": vision.read_idx}


@pytest.mark.defect("V13")
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_fifo_is_not_read(read, fifo):
    with pytest.raises(vision.DataFileError, match="it is a FIFO, not a regular file"):
        read(fifo)
