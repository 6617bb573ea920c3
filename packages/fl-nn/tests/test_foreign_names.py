"""Names of torch.nn, torch.nn.functional and torch.optim: each is here, or says what to write.

The lists beside this file are from ``python tools/foreign_names.py --lists``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fl_nn as nn
from fl_tensor.testing.foreign import answer, superfluous, unanswered

LISTS = Path(__file__).with_name("foreign_names")
TABLE = Path(nn.__file__).with_name("foreign_names.txt")


@pytest.mark.parametrize("name", ["torch.nn", "torch.nn.functional", "torch.optim"])
def test_every_name_is_here_or_answers(name):
    assert unanswered(nn, LISTS / f"{name}.txt", TABLE) == []


def test_no_row_is_superfluous():
    assert superfluous(nn, TABLE) == []


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
    assert answer(nn, name) == f"module 'fl_nn' has no attribute {name!r}: {way}"


@pytest.mark.defect("N35")
def test_dir_is_the_public_names():
    names = dir(nn)
    assert not {"Any", "annotations", "errors", "TYPE_CHECKING", "tables"} & set(names)
    assert all(hasattr(nn, name) for name in names)


def test_functional_says_where_each_function_is():
    for name, way in (("gelu", "ft.gelu(x, ...)"), ("cross_entropy", "nn.cross_entropy(...)")):
        text = f"module 'fl_nn.functional' has no attribute {name!r}: write {way}"
        assert answer(nn.functional, name) == text
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        _ = nn.functional.nonsense
