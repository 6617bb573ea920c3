"""`tools/foreign_names.py`: names of ours in the tables exist, and pages match the tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import foreign_names

import fl_tensor as ft
from fl_tensor.foreign_names import tables

TABLE = """
[write: on the page]
cat ft.concatenate(xs, axis); as in NumPy
view x.reshape(shape)
[write]
dog ft.bark(x) and ft.linalg.bark(x)
[synonyms]
kitten no_function
[expected]
bark
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    path = tmp_path / "jax.txt"
    path.write_text(TABLE)
    monkeypatch.setattr(foreign_names, "TABLES", {path: ("jax.", "ft.")})
    return path


def test_a_name_that_does_not_exist_is_found(table):
    found = list(foreign_names.unknown_names())
    assert [line.partition(": ")[2] for line in found] == [
        "dog: there is no ft.linalg.bark",
        "kitten: there is no ft.no_function",
    ]


def test_a_page_has_the_rows_that_are_typed_most(table):
    assert foreign_names.page_table("jax").splitlines() == [
        "| JAX | here |",
        "|---|---|",
        "| `jax.cat` | `ft.concatenate(xs, axis)`; as in NumPy |",
        "| `jax.view` | `x.reshape(shape)` |",
    ]


def test_this_repository_is_up_to_date(capsys):
    assert foreign_names.main([]) == 0, capsys.readouterr().out


def test_lists_have_no_names_from_elsewhere():
    names = foreign_names.names_of("numpy")
    assert {"sum", "linalg", "float32"} <= set(names)
    assert not {"TYPE_CHECKING", "sys", "os"} & set(names)
    assert {"T", "sort"} <= set(foreign_names.names_of("numpy.ndarray"))


def test_every_table_is_known():
    root = Path(ft.__file__).parents[3]
    found = {*root.glob("*/src/*/foreign_names.txt"), *tables.FOLDER.glob("*.txt")}
    assert found == set(foreign_names.TABLES)
