"""Names of torch.autograd: each is here, or says what to write.

The lists beside this file are from ``python tools/foreign_names.py --lists``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fl_autograd as ag
from fl_tensor.testing.foreign import answer, superfluous, unanswered

LISTS = Path(__file__).with_name("foreign_names")
TABLE = Path(ag.__file__).with_name("foreign_names.txt")


@pytest.mark.parametrize("name", ["torch.autograd"])
def test_every_name_is_here_or_answers(name):
    assert unanswered(ag, LISTS / f"{name}.txt", TABLE) == []


def test_no_row_is_superfluous():
    assert superfluous(ag, TABLE) == []


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("gradcheck", "write ag.check_grads(function, inputs)"),
        ("inference_mode", "write with ag.no_grad():"),
        ("SavedTensor", "not planned (internals of PyTorch)"),
    ],
)
def test_a_name_that_is_missing_says_what_to_write(name, way):
    assert answer(ag, name) == f"module 'fl_autograd' has no attribute {name!r}: {way}"


@pytest.mark.defect("N35")
def test_dir_is_the_public_names():
    names = dir(ag)
    assert not {"Any", "annotations", "errors", "TYPE_CHECKING", "tables"} & set(names)
    assert all(hasattr(ag, name) for name in names)
