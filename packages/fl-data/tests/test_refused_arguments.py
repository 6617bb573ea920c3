"""Arguments that cannot be right are refused where they are given."""

from __future__ import annotations

import pytest

import fl_data as data
import fl_tensor as ft


@pytest.mark.defect("V18")
def test_a_cache_in_a_file_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(data.DataError, match=r"\[CachedTransform\] folder .*file"):
        data.CachedTransform([1, 2], abs, folder=tmp_path / "file")


@pytest.mark.defect("item 10")
@pytest.mark.parametrize("count, rank, world_size", [(-1, 0, 1), (3, -1, 2), (3, 2, 2), (3, 0, 0)])
def test_shares_of_nobody_are_refused(count, rank, world_size):
    with pytest.raises(data.DataError, match=r"\[share\]"):
        data.share(count, rank, world_size)


@pytest.mark.defect("item 10")
def test_constructors_name_the_argument():
    with pytest.raises(ft.DTypeError, match=r"\[DynamicBatch\] lengths 3: expected several"):
        data.DynamicBatch([1, 2], 3, 4)
