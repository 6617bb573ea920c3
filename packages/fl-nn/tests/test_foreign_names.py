"""Names of torch.nn, torch.nn.functional and torch.optim: each is here, or says what to write.

The lists beside this file are from ``python tools/foreign_names.py --lists``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import fl_nn as nn
from fl_tensor.foreign_names import tables

TABLE = Path(nn.__file__).with_name("foreign_names.txt")


@pytest.mark.parametrize("name", ["torch.nn", "torch.nn.functional", "torch.optim"])
def test_every_name_is_here_or_answers(name):
    path = Path(__file__).parent / "foreign_names" / f"{name}.txt"
    names = path.read_text(encoding="utf-8").split()
    ours = set(dir(nn))
    assert [each for each in names if each not in ours and tables.find(each, TABLE) is None] == []


def test_no_row_is_superfluous():
    rows = Counter(row.name for row in tables.rows(TABLE) if row.kind != "expected")
    assert [name for name in rows if name in dir(nn)] == []
    assert [name for name, count in rows.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("Conv2d", "write nn.Conv2D(inputs, outputs, kernel)"),
        ("relu", "write ft.relu(x, ...)"),
        ("ModuleList", "write self.layers = [nn.Linear(2, 2)]; a list in an attribute"),
        (
            "LazyLinear",
            "not planned (parameters without a shape; give the sizes, or build on the "
            "backend null)",
        ),
    ],
)
def test_a_name_that_is_missing_says_what_to_write(name, way):
    with pytest.raises(AttributeError) as caught:
        getattr(nn, name)
    assert str(caught.value) == f"module 'fl_nn' has no attribute {name!r}: {way}"


@pytest.mark.defect("N35")
def test_dir_is_the_public_names():
    names = dir(nn)
    assert not {"Any", "annotations", "errors", "TYPE_CHECKING", "tables"} & set(names)
    assert all(hasattr(nn, name) for name in names)


def test_functional_says_where_each_function_is():
    for name, way in (("gelu", "ft.gelu(x, ...)"), ("cross_entropy", "nn.cross_entropy(...)")):
        with pytest.raises(AttributeError) as caught:
            getattr(nn.functional, name)
        text = f"module 'fl_nn.functional' has no attribute {name!r}: write {way}"
        assert str(caught.value) == text
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        _ = nn.functional.nonsense
