"""The rules that the kits live by, shown with a small suite of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SUITE = """
import pytest
from fl_memory.contract import Version
from fl_memory.testing.kit import Suite, requires, since

class ThingSuite(Suite, official=True):
    subject = "thing"
    what = "test thing"
    host = Version(1, 1)
    hooks = ("make",)

    def make(self): return type(self).thing()

    def test_answer(self): assert self.make().answer == 42

    def test_double(self, dtype): assert dtype != "wrong"

    @requires("sort")
    def test_sort(self): assert self.make().sorts

    @since(1, 1)
    def test_new(self): assert self.make().new

    @classmethod
    def __fl_generate__(cls, metafunc):
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", ["one", pytest.param("two", marks=requires("pairs"))])
            return ["case"]

    def test_case(self, case): assert case

class Thing:
    CONTRACT = (1, 0)
    answer = 42
    dtypes = frozenset({"int", "float"})
"""

STRICT = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider
filterwarnings = error
xfail_strict = true
"""


class Run:
    """Outcome of a file of tests."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makepyfile(thing_suite=SUITE)
        (pytester.path / "pytest.ini").write_text(STRICT)

    def __call__(self, body: str, *options: str) -> tuple[dict[str, int], str]:
        header = "from thing_suite import *\n\n"
        (self.pytester.path / "test_it.py").write_text(header + body)
        result = self.pytester.runpytest_inprocess("-rsxX", "-p", "fl_pytest_plugin", *options)
        return result.parseoutcomes(), result.stdout.str()


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others' plug-ins cost time here
    return Run(pytester)


def test_a_good_implementation_passes_and_skips_visibly(run: Run) -> None:
    outcomes, text = run("class TestIt(ThingSuite):\n    thing = Thing\n")
    # contract, answer, two dtypes, one of two cases; sort, new and the other case do not apply
    assert outcomes == {"passed": 5, "skipped": 3}
    assert "capability not declared: sort" in text and "capability not declared: pairs" in text
    assert "contract 1.0 predates 1.1" in text


def test_a_false_claim_fails(run: Run) -> None:
    outcomes, _ = run(
        "class Liar(Thing):\n    CONTRACT = (1, 0)\n    capabilities = {'sort'}\n"
        "    sorts = False\n"
        "class TestIt(ThingSuite):\n    thing = Liar\n"
    )
    assert outcomes == {"passed": 5, "skipped": 2, "failed": 1}


def test_newer_contract_runs_the_newer_tests(run: Run) -> None:
    outcomes, _ = run(
        "class New(Thing):\n    CONTRACT = (1, 1)\n    new = True\n"
        "class TestIt(ThingSuite):\n    thing = New\n"
    )
    assert outcomes == {"passed": 6, "skipped": 2}


@pytest.mark.parametrize("contract", ["CONTRACT = (1, 2)", "CONTRACT = (2, 0)", "answer = 42"])
def test_contract_is_negotiated(run: Run, contract: str) -> None:
    outcomes, _ = run(
        f"class Other(Thing):\n    {contract}\nclass TestIt(ThingSuite):\n    thing = Other\n",
        "-k",
        "contract",
    )
    assert outcomes["failed"] == 1


def test_known_failure_is_expected(run: Run) -> None:
    outcomes, text = run(
        "class Bad(Thing):\n    CONTRACT = (1, 0)\n    answer = 41\n    dtypes = {'wrong', 'int'}\n"
        "class TestIt(ThingSuite):\n    thing = Bad\n"
        "    known_failures = {'test_answer': 'bad#1', 'test_double[wrong]': 'bad#2'}\n"
    )
    assert outcomes == {"passed": 3, "skipped": 3, "xfailed": 2}
    assert "bad#1" in text and "bad#2" in text


def test_known_failure_that_passes_is_a_failure(run: Run) -> None:
    outcomes, _ = run(
        "class TestIt(ThingSuite):\n    thing = Thing\n    known_failures = {'test_answer': 'x'}\n"
    )
    assert outcomes["failed"] == 1


@pytest.mark.parametrize(
    "key, options",
    [
        ("test_gone", ()),
        ("test_double[complex]", ("-k", "answer")),
        ("test_ans", ("test_it.py::TestIt::test_answer",)),
    ],
)
def test_known_failure_that_matches_nothing_is_an_error(
    run: Run, key: str, options: tuple[str, ...]
) -> None:
    outcomes, text = run(
        f"class TestIt(ThingSuite):\n    thing = Thing\n    known_failures = {{{key!r}: 'x'}}\n",
        *options,
    )
    assert outcomes.get("errors") == 1 and key in text


@pytest.mark.parametrize(
    "edit",
    [
        "    def test_answer(self): ...\n",
        "    test_answer = None\n",
        "    def test_contract_is_stated_and_accepted(self): ...\n",
        "    def test_answer(self): ...\n    hooks = ('test_answer',)\n",
        "    @classmethod\n    def __fl_generate__(cls, metafunc): ...\n",
        "    def test_answer(self): ...\n    __fl_problems__ = classmethod(lambda cls: [])\n",
        "del ThingSuite.test_answer\n",
        "ThingSuite.test_answer = lambda self: None\n",
        "    pytestmark = pytest.mark.xfail\n",
        "TestIt.test_answer = lambda self: None\n",
    ],
)
def test_suite_cannot_be_edited_quietly(run: Run, edit: str) -> None:
    outcomes, text = run("class TestIt(ThingSuite):\n    thing = Thing\n" + edit)
    assert outcomes == {"errors": 1}, text


def test_hooks_and_further_tests_are_welcome(run: Run) -> None:
    outcomes, _ = run(
        "class TestIt(ThingSuite):\n    thing = Thing\n"
        "    def make(self): return Thing()\n    def test_more(self): ...\n"
    )
    assert outcomes["passed"] == 6


def test_no_dtypes_means_no_tests_and_is_an_error(run: Run) -> None:
    outcomes, text = run("class TestIt(ThingSuite):\n    thing = Thing\nThing.dtypes = ()\n")
    assert outcomes == {"errors": 1} and "dtypes is empty" in text


def test_missing_subject_is_an_error(run: Run) -> None:
    outcomes, text = run("class TestIt(ThingSuite): ...\n")
    assert outcomes == {"errors": 1} and "thing = YourClass" in text


def test_dtypes_of_the_suite_serve_subjects_without(run: Run) -> None:
    outcomes, _ = run(
        "class Plain:\n    CONTRACT = (1, 0)\n    answer = 42\n"
        "class TestIt(ThingSuite):\n    thing = Plain\n    dtypes = ('a', 'b', 'c')\n",
        "-k",
        "double",
    )
    assert outcomes["passed"] == 3


def test_other_classes_are_left_alone(run: Run) -> None:
    outcomes, _ = run(
        "class TestOther:\n    @pytest.mark.parametrize('dtype', [1])\n"
        "    def test_it(self, dtype): ...\n    known_failures = {'test_gone': 'x'}\n"
    )
    assert outcomes == {"passed": 1}


def test_report(run: Run, tmp_path: Path) -> None:
    card = tmp_path / "deep" / "card.json"
    run(
        "class Bad(Thing):\n    CONTRACT = (1, 0)\n    answer = 41\n    dtypes = {'wrong', 'int'}\n"
        "class TestIt(ThingSuite):\n    thing = Bad\n"
        "    known_failures = {'test_answer': 'bad#1'}\n",
        f"--fl-report={card}",
    )
    report = json.loads(card.read_text())
    assert {k: report[k] for k in ("passed", "failed", "skipped", "xfailed")} == {
        "passed": 3,
        "failed": 1,
        "skipped": 3,
        "xfailed": 1,
    }
    outcomes = {test["name"]: test for test in report["tests"]}
    assert outcomes["test_answer"]["reason"] == "bad#1"
    assert outcomes["test_double[wrong]"]["outcome"] == "failed"
    assert "predates" in outcomes["test_new"]["reason"]


def test_report_of_a_broken_collection(run: Run, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    run("1 / 0", f"--fl-report={card}")
    assert json.loads(card.read_text())["failed"] == 1


def test_a_suite_has_the_last_word_on_its_failures(run: Run) -> None:
    _, text = run(
        "class Advised(ThingSuite, official=True):\n"
        "    @classmethod\n"
        "    def __fl_advice__(cls, failed): return f'begin with {failed}'\n"
        "class Bad(Thing):\n    CONTRACT = (1, 0)\n    answer = 41\n"
        "class TestIt(Advised):\n    thing = Bad\n"
        "class TestGood(Advised):\n    thing = type('Good', (Thing,), {'CONTRACT': (1, 0)})\n"
    )
    assert text.count("begin with") == 1 and "begin with ['test_answer']\n" in text


@pytest.mark.parametrize(
    "answer, reason", [("1 / 0", "ZeroDivisionError: division by zero"), ("41", "answer == 42")]
)
def test_reasons_in_a_report_are_what_was_said(run: Run, answer: str, reason: str) -> None:
    """Where a plain assertion says nothing, its source does."""
    body = "class Bad(Thing):\n    CONTRACT = (1, 0)\n"
    body += f"    answer = property(lambda self: {answer})\n"
    run(body + "class TestIt(ThingSuite):\n    thing = Bad\n", "--fl-report", "report.json")
    tests = json.loads((run.pytester.path / "report.json").read_text())["tests"]
    told = next(t["reason"] for t in tests if t["name"] == "test_answer")
    assert told == reason or (answer == "41" and reason in told)


def test_a_sample_of_heavy_tests(run: Run) -> None:
    body = (
        "@pytest.mark.fl_heavy\n"
        "@pytest.mark.parametrize('n', range(10))\n"
        "def test_cases(n): ...\n"
        "@pytest.mark.fl_heavy\n"
        "def test_one(): ...\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_light(n): ...\n"
    )
    assert run(body)[0] == {"passed": 14}
    outcomes, text = run(body, "--fl-sample=0.25", "-v")
    assert outcomes == {"passed": 5, "skipped": 9}
    assert "heavy, and not in a sample of 0.25" in text and "test_one SKIPPED" in text
    chosen = [line for line in text.splitlines() if "test_cases" in line and "PASSED" in line]
    again = [line for line in run(body, "--fl-sample=0.25", "-v")[1].splitlines() if line in chosen]
    assert len(chosen) == 2 and again == chosen, "the same every time"
