"""Names of torch.utils.data: each is here, or says what to write.

The lists beside this file are from ``python tools/foreign_names.py --lists``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fl_data as data
from fl_tensor.testing.foreign import answer, superfluous, unanswered

LISTS = Path(__file__).with_name("foreign_names")
TABLE = Path(data.__file__).with_name("foreign_names.txt")


@pytest.mark.parametrize("name", ["torch.utils.data"])
def test_every_name_is_here_or_answers(name):
    assert unanswered(data, LISTS / f"{name}.txt", TABLE) == []


def test_no_row_is_superfluous():
    assert superfluous(data, TABLE) == []


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("DataLoader", "write data.Prefetch(data.Batch(data.Shuffle(dataset), size), processes=2)"),
        ("default_collate", "write data.collate(samples)"),
        ("MapDataPipe", "not planned (internals of PyTorch)"),
    ],
)
def test_a_name_that_is_missing_says_what_to_write(name, way):
    assert answer(data, name) == f"module 'fl_data' has no attribute {name!r}: {way}"


@pytest.mark.defect("N35")
def test_dir_is_the_public_names():
    names = dir(data)
    assert not {"Any", "annotations", "errors", "TYPE_CHECKING", "tables"} & set(names)
    assert all(hasattr(data, name) for name in names)
