"""Names of torch.autograd: each is here, or says what to write.

The lists beside this file are from ``python tools/foreign_names.py --lists``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import fl_autograd as ag
from fl_tensor.foreign_names import tables

TABLE = Path(ag.__file__).with_name("foreign_names.txt")


@pytest.mark.parametrize("name", ["torch.autograd"])
def test_every_name_is_here_or_answers(name):
    path = Path(__file__).parent / "foreign_names" / f"{name}.txt"
    names = path.read_text(encoding="utf-8").split()
    ours = set(dir(ag))
    assert [each for each in names if each not in ours and tables.find(each, TABLE) is None] == []


def test_no_row_is_superfluous():
    rows = Counter(row.name for row in tables.rows(TABLE) if row.kind != "expected")
    assert [name for name in rows if name in dir(ag)] == []
    assert [name for name, count in rows.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("gradcheck", "write ag.check_grads(function, inputs)"),
        ("inference_mode", "write with ag.no_grad():"),
        ("SavedTensor", "not planned (internals of PyTorch)"),
    ],
)
def test_a_name_that_is_missing_says_what_to_write(name, way):
    with pytest.raises(AttributeError) as caught:
        getattr(ag, name)
    assert str(caught.value) == f"module 'fl_autograd' has no attribute {name!r}: {way}"


@pytest.mark.defect("N35")
def test_dir_is_the_public_names():
    names = dir(ag)
    assert not {"Any", "annotations", "errors", "TYPE_CHECKING", "tables"} & set(names)
    assert all(hasattr(ag, name) for name in names)
