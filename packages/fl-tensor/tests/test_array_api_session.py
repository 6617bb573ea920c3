"""Deviations of ``nox -s array_api`` are strict both ways (the plugin: tools/ of a checkout)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "tools" / "array_api_plugin.py"
DEVIATIONS = ROOT / "packages" / "fl-tensor" / "array-api-deviations.txt"

if not PLUGIN.is_file():
    pytest.skip("outside the checkout", allow_module_level=True)

SUITE = """
import pytest

@pytest.mark.parametrize("i", range(200))
def test_pass(i):
    pass

def test_fail():
    raise ValueError

@pytest.mark.skip
def test_skip():
    raise ValueError
"""
KNOWN = "test_suite.py::test_fail\n    cannot be\n"


@pytest.fixture
def session(tmp_path):
    (tmp_path / "test_suite.py").write_text(SUITE)

    def run(deviations: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "deviations.txt").write_text(deviations)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            + ["-p", "array_api_plugin", "--deviations=deviations.txt", *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": str(PLUGIN.parent), "PATH": ""},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_listed_failure_is_counted_and_the_share_printed(session):
    code, text = session("# why\n\n" + KNOWN)
    assert code == 0, text
    assert "202 collected: 200 passed, 0 open, 1 deviating, 1 skipped, 0 failed; 99.01%" in text


def test_what_the_standard_leaves_open_does_not_count(session):
    known = "test_suite.py::test_fail\n    The standard leaves it open: otherwise here.\n"
    code, text = session(known)
    assert code == 0, text
    assert "202 collected: 200 passed, 1 open, 0 deviating, 1 skipped, 0 failed; 99.50%" in text


def test_an_unlisted_failure_fails(session):
    code, text = session("")
    assert code == 1 and "1 failed" in text


def test_a_listed_test_that_passes_fails(session):
    code, text = session(KNOWN + "test_suite.py::test_pass[3]\n    no more\n")
    assert code == 1 and "[XPASS(strict)] no more" in text


def test_an_entry_that_matches_no_test_fails(session):
    stale = KNOWN + "test_suite.py::test_gone\n    was renamed\n"
    code, text = session(stale)
    assert code == 4 and "deviations that match no test: test_suite.py::test_gone" in text
    assert session(stale, "-k", "test_fail or test_pass")[0] == 4
    assert session("elsewhere.py::test_other\n    another file\n" + KNOWN)[0] == 4


def test_a_part_of_the_suite_says_nothing_about_the_rest(session):
    stale = KNOWN + "test_suite.py::test_gone\n    was renamed\n"
    assert session(stale, "test_suite.py::test_pass")[0] == 0


def test_too_few_that_pass_fail(session):
    code, text = session(KNOWN, "-k", "test_fail or test_skip or 19")
    assert code == 1 and "% pass, 99% needed" in text


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("test_suite.py::test_fail\n", "no reason given for test_suite.py::test_fail"),
        ("   reason\n", "deviations.txt:1: a reason without a test id"),
        (KNOWN * 2, "deviations.txt:3: test_suite.py::test_fail is listed twice"),
    ],
)
def test_a_list_that_cannot_be_read(session, text, complaint):
    code, output = session(text)
    assert code == 4 and complaint in output


def test_our_list_can_be_read():
    sys.path.insert(0, str(PLUGIN.parent))
    try:
        import array_api_plugin
    finally:
        sys.path.remove(str(PLUGIN.parent))
    assert isinstance(array_api_plugin.read(DEVIATIONS), dict)
