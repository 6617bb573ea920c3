"""Results that are written to a file, in one run or in several."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import gemm_conv
import paper_models
import pytest
from _measure import report


@pytest.fixture
def given(tmp_path):
    return SimpleNamespace(json=tmp_path / "out" / "result.json", add=True, markdown=False)


def test_another_run_adds_rows_and_replaces_whole_those_that_it_measured(given, capsys):
    about = {"threads": 2}
    report(given, about, [{"case": "a", "ours": 2.0, "eager": 3.0}, {"case": "b", "ours": 1.0}])
    rows = report(given, about, [{"case": "a", "ours": 4.0, "tuned": 5.0}, {"case": "c"}])
    assert rows == [
        {"case": "a", "ours": 4.0, "tuned": 5.0},
        {"case": "b", "ours": 1.0},
        {"case": "c"},
    ]
    assert json.loads(given.json.read_text())["rows"] == rows
    assert "tuned" in capsys.readouterr().out


def test_rows_differ_by_all_columns_of_their_key(given):
    key = ("case", "group")
    report(given, {}, [{"case": "a", "group": "plain", "ours": 1.0}], key)
    rows = report(given, {}, [{"case": "a", "group": "packed", "ours": 2.0}], key)
    assert [row["ours"] for row in rows] == [1.0, 2.0]
    rows = report(given, {}, [{"case": "a", "group": "plain", "ours": 3.0}], key)
    assert [row["ours"] for row in rows] == [3.0, 2.0]


def test_rows_of_another_day_say_which(given):
    report(given, {"date": "2026-01-01"}, [{"model": "a"}, {"model": "b"}])
    report(given, {"date": "2026-01-02"}, [{"model": "b"}])
    rows = report(given, {"date": "2026-01-03"}, [{"model": "c"}])
    assert rows == [
        {"date": "2026-01-01", "model": "a"},
        {"date": "2026-01-02", "model": "b"},
        {"model": "c"},
    ]


def test_a_model_whose_peers_are_measured_one_by_one_has_a_row_for_each_run(given):
    def measured(ours, peer, seconds):
        row = paper_models.row_of({"ours": [ours], peer: [seconds]}, {"ours": 1, peer: 1})
        return report(given, {}, [{"model": "asr", "peers": peer, **row}], ("model", "peers"))

    measured(2.0, "eager", 3.0)
    rows = measured(1.0, "tuned", 1.2)
    assert [(row["ours, ms"], row.get("eager / ours")) for row in rows] == [(2e3, 1.5), (1e3, None)]
    pytest.importorskip("matplotlib")
    about = dict.fromkeys(("date", "machine", "threads", "torch", "fl-tensor"), "")
    paper_models.draw(given.json.with_suffix(".png"), about, rows)
    assert given.json.with_suffix(".png").exists()


def test_summaries_are_those_of_the_rows_that_are_there(given):
    listed = list(gemm_conv.cases_of("packed", []))

    def run(ratios):
        rows = [{"case": c, "group": "packed", "torch / ours": r} for c, r in ratios.items()]
        return report(given, {}, rows, ("case", "group"), gemm_conv.summarised)

    assert len(run(dict.fromkeys(listed, 2.0))) == len(listed) + 2
    rows = run({listed[0]: 0.5})
    assert rows[-1] == {"case": "PACKED, worst", "group": "packed", "torch / ours": 0.5}
    assert rows[-2]["torch / ours"] == pytest.approx(2.0 * 0.25 ** (1 / len(listed)))
    given.json.unlink()
    assert len(run({listed[0]: 0.5})) == 1, "no summary of a part of the list"


#: A folder for each processor, by the name that LLVM has for it.
RESULTS = Path(__file__).parents[1] / "results"
CAPITALS = tuple(group.upper() for group in gemm_conv.GROUPS)


@pytest.mark.parametrize(
    "file", sorted(RESULTS.glob("*/paper_models.json")), ids=lambda f: f.parent.name
)
def test_ratios_of_models_on_file_are_those_of_the_times_beside_them(file):
    for row in json.loads(file.read_text())["rows"]:
        ratios = [column for column in row if column.endswith(" / ours")]
        assert row["peers"] == ", ".join(
            peer for peer in paper_models.PEERS if f"{peer} / ours" in ratios
        )
        for column in ratios:
            time = row[f"{column.removesuffix(' / ours')}, ms"]
            assert row[column] == pytest.approx(time / row["ours, ms"]), (row["model"], column)


@pytest.mark.parametrize(
    "file", sorted(RESULTS.glob("*/gemm_conv.json")), ids=lambda f: f.parent.name
)
def test_ratios_of_contractions_on_file_are_those_of_the_speeds_beside_them(file):
    rows = json.loads(file.read_text())["rows"]
    for row in rows:
        if "generated, GF/s" in row:
            own = row["generated, GF/s"]
            torch = max(row["torch, GF/s"], row.get("channels last, GF/s", 0))
            assert row["oneDNN / ours"] == pytest.approx(own / row["oneDNN, GF/s"]), row["case"]
            assert row["torch / ours"] == pytest.approx(own / torch), row["case"]
    kept, again = (
        {row["case"]: row["oneDNN / ours"] for row in found if row["case"].startswith(CAPITALS)}
        for found in (rows, gemm_conv.summarised(rows))
    )
    assert kept and kept == pytest.approx(again)


def test_rows_of_another_environment_are_not_mixed(given):
    report(given, {"threads": 2}, [{"model": "a"}])
    with pytest.raises(SystemExit, match="measured with another threads"):
        report(given, {"threads": 1}, [{"model": "b"}])


def test_without_add_a_file_is_replaced(given):
    report(given, {}, [{"model": "a"}])
    given.add = False
    assert report(given, {}, [{"model": "b"}]) == [{"model": "b"}]
