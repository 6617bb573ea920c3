"""`tools/import_circles.py`: circles of imports, in a small package and in this repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import import_circles


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a circle a -> b -> c -> a."""
    texts = {
        "__init__": "",
        "a": "from package import b",
        "b": "class B:\n    import package.c",
        "c": "if TYPE_CHECKING:\n    from package import d\nelse:\n    from package.a import name",
        "d": "def f():\n    from package.a import name",
    }
    folder = tmp_path / "package"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_circle_is_found(package):
    found = import_circles.imports(package)
    closed = import_circles.circle(found)
    assert closed[0] == closed[-1] and {"package.a", "package.b", "package.c"} <= set(closed)
    del found["package.b"]["package.c"]
    assert not import_circles.circle(found)


def test_imports_in_functions_and_for_types_count(package, monkeypatch):
    found = import_circles.imports(package)
    assert found["package.d"] == {"package.a": import_circles.IN_FUNCTION}
    assert found["package.c"]["package.d"] == import_circles.FOR_TYPES
    assert found["package.c"]["package.a"] == import_circles.AT_IMPORT
    monkeypatch.setattr(import_circles, "TYPES_MAY", ["package"])
    assert "package.d" not in import_circles.imports(package)["package.c"]


def test_the_listed_arrows_are_those_that_close_a_circle(monkeypatch):
    assert "fl_tensor" in import_circles.CHECKED and not import_circles.problems("fl_tensor")
    listed = import_circles.UPWARD
    monkeypatch.delitem(listed, "fl_tensor.dtypes")
    (fault,) = import_circles.problems("fl_tensor")
    assert "fl_tensor.dtypes" in fault and "a circle" in fault
    monkeypatch.setitem(listed, "fl_tensor.dtypes", ["fl_tensor.exchange.dtypes"])
    monkeypatch.setitem(listed, "fl_tensor.arrays.array", ["fl_tensor.arrays.tensor"])
    (fault,) = import_circles.problems("fl_tensor")
    assert "no longer there" in fault
