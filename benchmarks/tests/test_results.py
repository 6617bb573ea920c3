"""Results that are written to a file, in one run or in several."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from _measure import report


@pytest.fixture
def given(tmp_path):
    return SimpleNamespace(json=tmp_path / "out" / "result.json", add=True, markdown=False)


def test_another_run_adds_rows_and_columns_and_renews_what_it_measured(given, capsys):
    about = {"date": "2026-01-01", "threads": 2}
    report(given, about, [{"model": "a", "ours": 2.0, "eager": 3.0}, {"model": "b", "ours": 1.0}])
    rows = report(
        given, about | {"date": "2026-01-02"}, [{"model": "a", "ours": 4.0, "tuned": 5.0}]
    )
    assert rows == [
        {"model": "a", "ours": 4.0, "eager": 3.0, "tuned": 5.0},
        {"model": "b", "ours": 1.0},
    ]
    assert json.loads(given.json.read_text())["rows"] == rows
    assert "tuned" in capsys.readouterr().out


def test_rows_of_another_environment_are_not_mixed(given):
    report(given, {"threads": 2}, [{"model": "a"}])
    with pytest.raises(SystemExit, match="measured with another threads"):
        report(given, {"threads": 1}, [{"model": "b"}])


def test_without_add_a_file_is_replaced(given):
    report(given, {}, [{"model": "a"}])
    given.add = False
    assert report(given, {}, [{"model": "b"}]) == [{"model": "b"}]
