"""pytest plugin for the public array API test suite: strict deviations and a verdict.

Used by ``nox -s array_api``. A deviation is a test of the suite that is known to fail, with the
reason. It is strict both ways: an entry whose test passes, or that no test has, fails the run. So
does a run in which fewer than ``REQUIRED`` of the collected tests pass; a test that the suite skips
has not passed. Where the standard leaves the choice, the reason begins with ``OPEN``, and the test
is not counted among the collected ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

REQUIRED = 0.99
OPEN = "The standard leaves it open:"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deviations", type=Path, required=True, help="file of known failures")


def pytest_configure(config: pytest.Config) -> None:
    entries = read(config.getoption("--deviations"))
    config.pluginmanager.register(Deviations(entries), "array_api_deviations")


def read(path: Path) -> dict[str, str]:
    """Test id -> reason. An id is a line of its own; the indented lines below it are the reason; a
    ``#`` begins a comment line."""
    entries: dict[str, str] = {}
    current = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not current:
                raise pytest.UsageError(f"{path}:{number}: a reason without a test id above it")
            entries[current] = f"{entries[current]} {line.strip()}".strip()
            continue
        current = line.rstrip()
        if current in entries:
            raise pytest.UsageError(f"{path}:{number}: {current} is listed twice")
        entries[current] = ""
    if bare := [test for test, reason in entries.items() if not reason]:
        raise pytest.UsageError(f"{path}: no reason given for {', '.join(bare)}")
    return entries


class Deviations:
    """Marks the listed tests, counts outcomes, and decides."""

    def __init__(self, entries: dict[str, str]) -> None:
        self.entries = entries
        self.counts: Counter[str] = Counter()
        self.collected = 0

    @pytest.hookimpl(tryfirst=True)  # before -k takes tests away
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        found = {item.nodeid: item for item in items}
        for test, reason in self.entries.items():
            if test in found:
                found[test].add_marker(pytest.mark.xfail(reason=reason, strict=True))
        selected = [argument.partition("::") for argument in config.args]
        if any(single for _, single, _ in selected):
            return  # what is missing among single tests says nothing
        files = [file for file, _, _ in selected if file.endswith(".py")]
        stale = [
            test
            for test in self.entries
            if test not in found
            and (not files or any(file.endswith(test.partition("::")[0]) for file in files))
        ]
        if stale:
            raise pytest.UsageError("deviations that match no test: " + ", ".join(stale))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = len(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.counts["failed"] += 1
        elif report.skipped and (reason := getattr(report, "wasxfail", None)) is not None:
            self.counts["open" if reason.startswith(OPEN) else "deviating"] += 1
        elif report.skipped:
            self.counts["skipped"] += 1
        elif report.when == "call":
            self.counts["passed"] += 1

    @property
    def share(self) -> float:
        return self.counts["passed"] / max(self.collected - self.counts["open"], 1)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        yield
        if session.exitstatus == pytest.ExitCode.OK and self.share < REQUIRED:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.collected:
            return
        parts = ", ".join(
            f"{self.counts[k]} {k}" for k in "passed open deviating skipped failed".split()
        )
        terminalreporter.section("array API")
        terminalreporter.line(
            f"{self.collected} collected: {parts}; {self.share:.2%} pass, {REQUIRED:.0%} needed"
        )
