"""The report of a run that is cut off has what was done until then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.defect("O3", "item 8")

TESTS = """
import os, signal
import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)  # none in a program in the background

def test_first(): ...

def test_second(): assert 1 == 2

@pytest.fixture
def broken():
    yield
    raise RuntimeError("on the way out")

def test_third(broken): ...

def test_fourth(): os.kill(os.getpid(), signal.{signal})

def test_fifth(): ...
"""

DEADLY = """
import os, signal, time
from fl_memory.managers.system import SystemManager

class Deadly(SystemManager):
    CONTRACT = (1, 0)

    def alloc(self, *arguments, **options):
        open("pid", "w").write(str(os.getpid()))
        {action}
"""


def pytest_ends(folder: Path, *options: str) -> int:
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    line += ["fl_pytest_plugin", "--rootdir", str(folder), "--fl-report", "report.json", *options]
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    return subprocess.run(
        line, cwd=folder, check=False, env=environment, capture_output=True
    ).returncode


def read(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text())
    return report


@pytest.mark.parametrize("killed", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_killed_run_leaves_every_test_that_was_over(tmp_path: Path, killed: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.format(signal=killed))
    assert pytest_ends(tmp_path) == (2 if killed == "SIGINT" else -getattr(signal, killed))
    report = read(tmp_path / "report.json")
    assert [(t["name"], t["outcome"]) for t in report["tests"]] == [
        ("test_first", "passed"),
        ("test_second", "failed"),
        ("test_third", "failed"),
    ]
    assert report["tests"][2]["reason"] == "RuntimeError: on the way out"
    assert (report["passed"], report["failed"], report["finished"]) == (1, 2, False)


def test_the_report_is_whole_after_every_test(tmp_path: Path) -> None:
    """Read between the tests: each sees those before it."""
    (tmp_path / "test_it.py").write_text(
        "import json, pytest\n"
        "@pytest.mark.parametrize('n', range(5))\n"
        "def test_it(n):\n"
        "    report = json.load(open('report.json'))\n"
        "    assert report['passed'] == len(report['tests']) == n\n"
    )
    assert pytest_ends(tmp_path) == 0
    report = read(tmp_path / "report.json")
    assert report["passed"] == 5 and report["finished"]


def test_several_processes_write_one_report(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_it(n): ...\n"
    )
    assert pytest_ends(tmp_path, "-n", "2") == 0
    report = read(tmp_path / "report.json")
    assert report["passed"] == 20 and report["finished"]
    assert sorted(t["name"] for t in report["tests"]) == sorted(f"test_it[{n}]" for n in range(20))


def kit(folder: Path, action: str) -> subprocess.Popen[str]:
    (folder / "deadly.py").write_text(DEADLY.format(action=action))
    line = [sys.executable, "-m", "fl_memory.testing", "deadly:Deadly", "--report", "card.json"]
    return subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True)


def test_the_command_reports_a_run_that_broke_down(tmp_path: Path) -> None:
    command = kit(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    told, _ = command.communicate(timeout=120)
    assert command.returncode == 1 and told.splitlines()[-1].endswith("1 failed")
    report = read(tmp_path / "card.json")
    assert report["name"] == "deadly:Deadly" and not report["finished"]
    assert report["passed"] >= 1, "the test of the contract comes first"
    assert report["tests"][-1]["reason"] == "exit status -9"


@pytest.mark.parametrize("killed", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_cut_off_leaves_its_report(
    tmp_path: Path, killed: signal.Signals
) -> None:
    command = kit(tmp_path, "time.sleep(600)")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert command.poll() is None
        time.sleep(0.02)
    tests = int((tmp_path / "pid").read_text())
    try:
        command.send_signal(killed)
        assert command.wait(60) in (128 + killed, -killed)
        if killed is signal.SIGTERM:
            with pytest.raises(ProcessLookupError):
                os.kill(tests, 0)
    finally:
        with suppress(ProcessLookupError):  # after SIGKILL nobody told it
            os.kill(tests, signal.SIGKILL)
        command.communicate()
    report = read(tmp_path / "card.json")
    assert report["name"] == "deadly:Deadly" and not report["finished"]
    assert report["passed"] == len(report["tests"]) >= 1
