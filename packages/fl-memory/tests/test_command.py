"""``python -m fl_memory.testing NAME``: the kit without a test file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BROKEN = """
from fl_memory.managers.system import SystemManager

class Forgetful(SystemManager):
    CONTRACT = (1, 0)
    def stats(self, device=None):
        figures = super().stats(device).as_dict()
        return type(super().stats())(**{**figures, "peak_live_bytes": 0})
"""


TWICE = """
from fl_memory.managers.system import SystemManager

class Twice(SystemManager):
    CONTRACT = (1, 0)
    def allocate_chunk(self, account, nbytes, alignment, stream, tag):
        last = self.__dict__.get("last", (0, -1))
        if last[1] < nbytes or last[0] % alignment:
            last = self.last = self.device_allocate(account, nbytes or 1, alignment)
        return last[0], max(last[1], nbytes), None
    def free_chunk(self, account, address, capacity, handle):
        self.kept = [*self.__dict__.get("kept", []), (address, capacity)]
    def trim(self, account):
        kept, self.kept = self.__dict__.get("kept", []), []
        for address, capacity in kept:
            self.device_free(account, address, capacity)
        return sum(capacity for _, capacity in kept)
"""


def kit(*arguments: str, cwd: Path) -> tuple[int, list[str], str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "fl_memory.testing", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_good_manager(tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    status, lines, errors = kit(
        "caching", "-k", "stats or peak", "--report", str(card), cwd=tmp_path
    )
    assert status == 0 and errors == "", errors
    assert lines[-1] == "2 passed, 0 failed"
    report = json.loads(card.read_text())
    assert report["name"] == "caching" and report["contract"] == "1.0" and report["passed"] == 2
    assert {test["name"] for test in report["tests"]} == {
        "test_stats_of_one_block",
        "test_peak_stays",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["card.json"]


def test_wrong_manager(tmp_path: Path) -> None:
    (tmp_path / "forgetful.py").write_text(BROKEN)
    status, lines, _ = kit("forgetful:Forgetful", "-k", "peak", cwd=tmp_path)
    assert status == 1 and lines[-1] == "0 passed, 1 failed"


def test_the_kit_outlives_a_manager_that_lends_memory_twice(tmp_path: Path) -> None:
    """No wrong address is written to, and no finaliser of it ends the run."""
    (tmp_path / "twice.py").write_text(TWICE)
    card = tmp_path / "card.json"
    status, lines, _ = kit("twice:Twice", "--report", str(card), cwd=tmp_path)
    report = json.loads(card.read_text())
    assert status == 1 and report["finished"], lines[-40:]
    assert report["failed"] > 20 and report["passed"] > 20
    assert "pytest" not in {test["name"] for test in report["tests"]}


def test_unknown_manager(tmp_path: Path) -> None:
    status, lines, errors = kit("nobody", cwd=tmp_path)
    assert status == 2 and "buddy, caching, exact, planned, system" in errors
    assert lines == ["0 passed, 0 failed: no test ran, nobody cannot be loaded"]


def test_device_memory(tmp_path: Path) -> None:
    status, lines, errors = kit("--device", "cpu", "-k", "limit or alignment", cwd=tmp_path)
    assert status == 0 and errors == "" and lines[-1] == "7 passed, 0 failed"
    status, _, errors = kit("--device", "nobody", cwd=tmp_path)
    assert status == 2 and "no device memory named 'nobody'" in errors


def test_nothing_selected_is_no_success(tmp_path: Path) -> None:
    status, lines, _ = kit("system", "-k", "no_such_test", cwd=tmp_path)
    assert status == 1
    assert lines[-1] == "0 passed, 0 failed: no test ran, -k 'no_such_test' fits none"


def test_contract_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "fl_memory.contract", "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0 and "memory-1.0.json" in done.stdout and done.stderr == ""
