"""Sizes that no image has are refused before it is read."""

from __future__ import annotations

import pytest
from PIL import Image

import fl_vision as vision


@pytest.mark.defect("V18")
@pytest.mark.parametrize("size", [(0, 5), (-1, 5), (10**9, 10**9)])
def test_a_size_that_no_image_has_is_refused(size, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "image.png")
    with pytest.raises(vision.UsageError, match=r"\[image\] size"):
        vision.read_image(tmp_path / "image.png", size=size)
