"""The report of a run, ``--fl-report FILE``: JSON that is whole after every test.

    {"tests": [
    {"name": "test_add[int32]", "outcome": "passed", "reason": "", "seconds": 0.01},
    {"name": "test_add[float32]", "outcome": "failed", "reason": "...", "seconds": 0.02}
    ], "passed": 1, "failed": 1, "skipped": 0, "xfailed": 0, "finished": false}

A test is written as soon as it is over, over the last line of the file, in one call. A run that is
killed leaves what it has done, with ``finished`` false.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from fl_memory.testing.command import OUTCOMES


class Reporter:
    """A pytest plugin that writes every outcome to ``target``, after what ``about`` says of the
    run."""

    def __init__(self, target: Path, about: Mapping[str, Any]) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self._begin = json.dumps({**about, "tests": []}).removesuffix("]}") + "\n"
        target.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(target, "w")
        self._last = 0  # where the last line begins
        self._write(self._begin)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report.nodeid or "collection", "failed", str(report.longrepr), 0.0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            outcome: str = report.outcome
            reason = ""
            if hasattr(report, "wasxfail"):
                outcome = "xfailed" if report.skipped else "failed"
                reason = report.wasxfail
            elif report.skipped and isinstance(report.longrepr, tuple):
                reason = report.longrepr[2]
            elif report.failed:
                reason = _reason(report)
            self._note(report.nodeid, outcome, reason, report.duration)

    def pytest_sessionfinish(self) -> None:
        self._write("", finished=True)

    def pytest_unconfigure(self) -> None:
        self._file.close()

    def _note(self, nodeid: str, outcome: str, reason: str, seconds: float) -> None:
        known = self.tests.get(nodeid)
        if known is not None and known["outcome"] == "failed":  # a broken teardown adds nothing
            return
        self.tests[nodeid] = {
            "name": nodeid.rpartition("::")[2],
            "outcome": outcome,
            "reason": reason,
            "seconds": round(seconds, 4),
        }
        self.counts[outcome] += 1
        if known is None:
            comma = ",\n" if len(self.tests) > 1 else ""
            self._write(comma + json.dumps(self.tests[nodeid]))
        else:
            self.counts[known["outcome"]] -= 1
            self._last = 0
            self._write(self._begin + ",\n".join(map(json.dumps, self.tests.values())))

    def _write(self, text: str, finished: bool = False) -> None:
        # In place of the last line: the text, and a new last line.
        end = json.dumps({**self.counts, "finished": finished}).removeprefix("{")
        body = text.encode()
        self._file.seek(self._last)
        self._file.write(body + f"\n], {end}\n".encode())
        self._last += len(body)
        self._file.truncate()


def _reason(report: pytest.TestReport) -> str:
    """What a failed test said, without the source around it; all of it where it said nothing."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None or crash.message == "AssertionError":
        return report.longreprtext
    message: str = crash.message
    return message.removeprefix("Failed: ")
