"""Names of torch.utils.data: each is here, or says what to write.

The lists beside this file are from ``python tools/foreign_names.py --lists``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import fl_data as data
from fl_tensor.foreign_names import tables

TABLE = Path(data.__file__).with_name("foreign_names.txt")


@pytest.mark.parametrize("name", ["torch.utils.data"])
def test_every_name_is_here_or_answers(name):
    path = Path(__file__).parent / "foreign_names" / f"{name}.txt"
    names = path.read_text(encoding="utf-8").split()
    ours = set(dir(data))
    assert [each for each in names if each not in ours and tables.find(each, TABLE) is None] == []


def test_no_row_is_superfluous():
    rows = Counter(row.name for row in tables.rows(TABLE) if row.kind != "expected")
    assert [name for name in rows if name in dir(data)] == []
    assert [name for name, count in rows.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("DataLoader", "write data.Prefetch(data.Batch(data.Shuffle(dataset), size), processes=2)"),
        ("default_collate", "write data.collate(samples)"),
        ("MapDataPipe", "not planned (internals of PyTorch)"),
    ],
)
def test_a_name_that_is_missing_says_what_to_write(name, way):
    with pytest.raises(AttributeError) as caught:
        getattr(data, name)
    assert str(caught.value) == f"module 'fl_data' has no attribute {name!r}: {way}"


@pytest.mark.defect("N35")
def test_dir_is_the_public_names():
    names = dir(data)
    assert not {"Any", "annotations", "errors", "TYPE_CHECKING", "tables"} & set(names)
    assert all(hasattr(data, name) for name in names)
