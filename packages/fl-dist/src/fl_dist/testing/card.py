"""Run the suite on a named communicator, and write down how every test did."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fl_dist._version import __version__
from fl_dist.communicator import Communicator

TEST_FILE = """\
from fl_dist import load
from fl_dist.testing import CommunicatorSuite


class TestCommunicator(CommunicatorSuite):
    communicator = load({name!r})
"""


class Card:
    """A pytest plugin that keeps the outcome of every test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.failed:
            self._failed(name, report)
        elif report.skipped:
            self.outcomes[name] = "skipped"
            self.reasons[name] = str(report.longrepr[2])
        elif report.when == "call":
            self.outcomes.setdefault(name, "passed")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._failed("collection", report)

    def count(self, outcome: str) -> int:
        return Counter(self.outcomes.values())[outcome]

    def _failed(self, name: str, report: Any) -> None:
        self.outcomes[name] = "failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        self.reasons[name] = crash.message if crash is not None else str(report.longrepr)


def run(name: str, expression: str = "", verbose: bool = False) -> Card:
    """Run ``CommunicatorSuite`` on the communicator ``name`` (or ``"module:Class"``).

    ``expression`` selects tests as pytest's ``-k``. What fails outside tests counts as a failure.
    """
    card = Card()
    with tempfile.TemporaryDirectory(prefix="fl-dist-kit-") as folder:
        path = Path(folder, "test_communicator.py")
        path.write_text(TEST_FILE.format(name=name), encoding="utf-8")
        settings = Path(folder, "pytest.ini")
        settings.write_text("[pytest]\nxfail_strict = true\n", encoding="utf-8")
        options = ["-c", str(settings), "--rootdir", folder, "--import-mode=importlib"]
        options += ["-p", "no:cacheprovider", "-p", "fl_pytest_plugin", "--tb=short"]
        options += ["-v"] if verbose else ["-q", "--no-header"]
        options += ["-k", expression] if expression else []
        status = int(pytest.main([*options, str(path)], plugins=[card]))
    if not card.count("passed") + card.count("failed"):
        card.outcomes["session"] = "failed"
        card.reasons["session"] = f"no test ran (pytest ended with status {status})"
    return card


def document(kind: type[Communicator], card: Card) -> dict[str, Any]:
    """The report as data."""
    return {
        "kit": "dist",
        "contract": "{}.{}".format(*kind.CONTRACT),
        "hosted contract": "{}.{}".format(*Communicator.CONTRACT),
        "communicator": kind.name,
        "class": f"{kind.__module__}:{kind.__qualname__}",
        "capabilities": sorted(kind.capabilities),
        "world sizes": [n for n in (1, 2, 3, 4) if kind.offers(n)],
        "versions": {"python": platform.python_version(), "fl-dist": __version__},
        **{outcome: card.count(outcome) for outcome in ("passed", "failed", "skipped")},
        "tests": card.outcomes,
        "reasons": card.reasons,
    }


def write(path: Path, report: dict[str, Any]) -> None:
    """Write JSON so that an interrupted run leaves no half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)
