"""Nobody passes by editing the exam: what pytest says to bent, stale or unfinished suites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BACKENDS = """\
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.dtypes import REQUIRED
from fl_tensor.testing import TensorBackendSuite


class Correct(NumpyBackend):
    CONTRACT = (1, 0)
    dtypes = REQUIRED


class Wrong(Correct):
    CONTRACT = (1, 0)

    def negative(self, x):
        return x

"""
MUTATED = """\

class TestUnset(TensorBackendSuite):
    pass


class TestUnknown(TensorBackendSuite):
    backend = "nunpy"


class TestEmptied(TensorBackendSuite):
    backend = Correct

    def test_threads(self):
        pass


class TestDeleted(TensorBackendSuite):
    backend = Correct
    test_operation = None


class TestOtherHarness(TensorBackendSuite):
    backend = Correct

    def need(self, harness, case):
        pass


class TestStale(TensorBackendSuite):
    backend = Correct
    known_failures = {"test_operation[negative-float16-plain]": "injected#1"}
"""
HONEST = """\

class TestKnown(TensorBackendSuite):
    backend = Wrong
    known_failures = {
        "test_operation[negative-float32-plain]": "injected#2",
        "test_operation[negative-float32-empty]": "this one does not fail",
    }


class TestMore(TensorBackendSuite):
    backend = Correct

    def test_of_our_own(self, harness):
        assert harness.backend.name == "numpy"
"""


def run_pytest(folder: Path, tests: str, *options: str) -> str:
    path = folder / "test_theirs.py"
    path.write_text(BACKENDS + tests)
    line = [sys.executable, "-m", "pytest", "-p", "fl_pytest_plugin", "-p", "no:cacheprovider"]
    line += ["-q", "-rA", "--rootdir", str(folder), *options, str(path)]
    found = subprocess.run(
        line, capture_output=True, text=True, cwd=folder, timeout=300, check=False
    )
    return found.stdout


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_pytest(tmp_path_factory.mktemp("mutated"), MUTATED, "-k", "test_flags")


@pytest.mark.parametrize(
    "line",
    [
        "TestUnset: set backend = YourBackend",
        "TestUnknown: backend = 'nunpy': no tensor backend named 'nunpy'; there are: ",
        "TestEmptied overrides test_threads",
        "TestDeleted overrides test_operation",
        "TestOtherHarness overrides need",
        "TestStale: known_failures names 'test_operation[negative-float16-plain]'",
    ],
)
def test_a_mutated_suite_is_an_error(complaints: str, line: str) -> None:
    assert line in complaints


def test_each_mutated_suite_is_reported_once(complaints: str) -> None:
    assert "6 errors" in complaints.splitlines()[-1]


def test_known_failures_are_strict_and_own_tests_are_welcome(tmp_path: Path) -> None:
    told = run_pytest(tmp_path, HONEST, "-k", "negative-float32 or our_own")
    assert "XFAIL" in told
    assert "injected#2" in told
    assert "FAILED test_theirs.py::TestKnown::test_operation[negative-float32-empty]" in told
    assert "[XPASS(strict)] this one does not fail" in told
    assert "PASSED test_theirs.py::TestMore::test_of_our_own" in told
    # the layouts of "non-contiguous" and the values of "edge" show the same fault, undeclared
    assert "FAILED test_theirs.py::TestKnown::test_operation[negative-float32-edge]" in told
