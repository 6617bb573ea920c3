"""Run the suite on a named backend, and write down how every operation did."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_memory.contract import Version
from fl_tensor._version import __version__
from fl_tensor.backend import TensorBackend

TEST_FILE = """\
from fl_tensor.testing import TensorBackendSuite


class TestBackend(TensorBackendSuite):
    backend = {name!r}
"""
OUTCOMES = ("passed", "failed", "skipped", "known failures")


class Card:
    """A pytest plugin that keeps the outcome of every test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        #: Failures outside tests: while collecting, or of the session itself.
        self.broken: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.rsplit("::", 1)[-1]
        if report.failed:
            self.outcomes[name] = "failed"
            self.reasons[name] = _last_line(report)
        elif report.skipped:
            known = hasattr(report, "wasxfail")
            self.outcomes[name] = "known failures" if known else "skipped"
        elif report.when == "call":
            self.outcomes.setdefault(name, "passed")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(_last_line(report))

    def count(self, outcome: str) -> int:
        return Counter(self.outcomes.values())[outcome]

    def operations(self) -> dict[str, dict[str, Any]]:
        """Per operation how many of its cases passed, failed and were skipped, and which failed."""
        table: dict[str, dict[str, Any]] = {}
        for test, outcome in self.outcomes.items():
            if not test.startswith("test_operation["):
                continue
            case = test[len("test_operation[") : -1]
            row = table.setdefault(case.split("-")[0], dict.fromkeys(OUTCOMES, 0))
            row[outcome] += 1
            if outcome == "failed":
                row.setdefault("failures", []).append(case)
        return dict(sorted(table.items()))


def run(name: str, expression: str = "", verbose: bool = False) -> tuple[Card, int]:
    """Run ``TensorBackendSuite`` on the backend ``name`` (or ``"module:Class"``) in this process.

    Returns the card and pytest's exit status. ``expression`` selects tests as pytest's ``-k``.
    """
    card = Card()
    with tempfile.TemporaryDirectory(prefix="fl-tensor-kit-") as folder:
        path = Path(folder, "test_backend.py")
        path.write_text(TEST_FILE.format(name=name), encoding="utf-8")
        Path(folder, "pytest.ini").write_text("[pytest]\nxfail_strict = true\n", encoding="utf-8")
        options = ["-c", str(path.with_name("pytest.ini")), "--rootdir", folder]
        options += ["-p", "fl_pytest_plugin", "-p", "no:cacheprovider"]
        options += ["--import-mode=importlib", "--tb=short"]
        options += ["-v"] if verbose else ["-q", "--no-header"]
        options += ["-k", expression] if expression else []
        status = int(pytest.main([*options, str(path)], plugins=[card]))
    return card, status


def document(name: str, backend: TensorBackend, card: Card) -> dict[str, Any]:
    """The report as data."""
    cls = type(backend)
    return {
        "kit": "tensor",
        "contract": str(Version(*cls.CONTRACT)),
        "hosted contract": str(Version(*TensorBackend.CONTRACT)),
        "backend": name,
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "dtypes": sorted(str(d) for d in backend.dtypes),
        "capabilities": sorted(backend.capabilities),
        "has values": backend.has_values,
        "versions": {
            "python": platform.python_version(),
            "fl-tensor": __version__,
            "numpy (references)": np.__version__,
            **_distribution(cls),
        },
        **{outcome: card.count(outcome) for outcome in OUTCOMES},
        "operations": card.operations(),
        "failures": dict(sorted(card.reasons.items())),
        "broken": card.broken,
    }


def write(path: Path, report: dict[str, Any]) -> None:
    """Write JSON so that an interrupted run leaves no half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


def _distribution(cls: type) -> dict[str, str]:
    """The installed distribution that the class comes from, with its version."""
    from importlib.metadata import packages_distributions, version

    owners = packages_distributions().get(cls.__module__.partition(".")[0], [])
    return {name: version(name) for name in sorted(set(owners))}


def _last_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:8])
