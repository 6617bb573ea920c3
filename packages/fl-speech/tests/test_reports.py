"""Reports of recognition errors."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from fl_nn.meters import EditDistanceMeter
from fl_speech.errors import SpeechDataError
from fl_speech.reports import ErrorReport, Pair, align_tokens


def test_tokens_are_paired() -> None:
    assert align_tokens(["a", "b", "c"], ["a", "x", "c", "d"]) == [
        Pair("a", "a"), Pair("b", "x"), Pair("c", "c"), Pair(None, "d"),
    ]  # fmt: skip
    assert align_tokens(["a"], []) == [Pair("a", None)]
    assert align_tokens([], []) == []


def test_alignments_have_the_errors_of_the_meter() -> None:
    draw = random.Random(0)
    for _ in range(300):
        a, b = (draw.choices("abc", k=draw.randrange(7)) for _ in range(2))
        pairs = align_tokens(a, b)
        assert [p.reference for p in pairs if p.reference is not None] == a
        assert [p.hypothesis for p in pairs if p.hypothesis is not None] == b
        kinds = Counter(pair.kind for pair in pairs)
        meter = EditDistanceMeter()
        meter.add(b, a)
        counts = meter.value
        assert (kinds["deletion"], kinds["insertion"], kinds["substitution"]) == counts[2:]


@pytest.fixture
def report() -> ErrorReport:
    made = ErrorReport("Test <1>")
    made.add("u1", ["one", "two", "three"], ["one", "too", "three"])
    made.add("u2", ["two"], ["<b>", "too"])
    made.add("u3", ["six"], ["six"])
    made.add("u4", ["nine"], [])
    return made


def test_rates(report: ErrorReport) -> None:
    assert report.wer == pytest.approx(100 * 4 / 6)  # two substitutions, insertion, deletion
    assert report.ler == pytest.approx(100 * (1 + 5 + 4) / (13 + 3 + 3 + 4))
    other = ErrorReport()
    other.add("a", ["ab"], ["a"], reference_tokens=["a", "b"], hypothesis_tokens=["a"])
    assert (other.wer, other.ler) == (100, 50)


def test_confusions(report: ErrorReport) -> None:
    assert report.confusions() == [("two", "too", 2), ("", "<b>", 1), ("nine", "", 1)]


def test_text(report: ErrorReport) -> None:
    text = report.text()
    assert "WER 66.67 % (4 of 6 words: 2 substitutions, 1 deletions, 1 insertions)" in text
    assert "u1: 1 errors\nREF: one two three\nHYP: one too three\n" in text
    assert "REF: *   two\nHYP: <b> too\n" in text
    assert "u3" not in text and "u3" in report.text(errors_only=False)


def test_the_page_is_escaped(report: ErrorReport, tmp_path: Path) -> None:
    report.save(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<b>" not in page and "Test <1>" not in page
    assert '<td class="insertion">&lt;b&gt;</td>' in page and "src=" not in page
    report.save(tmp_path / "r.txt")
    assert (tmp_path / "r.txt").read_text() == report.text()


def test_what_is_no_list_of_words(report: ErrorReport) -> None:
    with pytest.raises(SpeechDataError, match="'one two' is no list"):
        report.add("a", "one two", ["one"])
    with pytest.raises(SpeechDataError, match="sample 'a': tokens of one side"):
        report.add("a", ["one"], ["one"], reference_tokens=["o"])
    assert len(report.lines) == 4
