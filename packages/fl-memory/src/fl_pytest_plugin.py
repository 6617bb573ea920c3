"""Hooks for the conformance kits. Imports pytest alone, because it loads in every pytest run.

A suite is a class that derives from ``fl_memory.testing.kit.Suite``; it is recognised by its
attribute ``__fl_suite__``, so nothing of this library is imported for anybody else's tests.
What the hooks do for a suite class:

* ``known_failures`` become strict expected failures; a key that matches no test is an error;
* tests marked ``requires`` and ``since`` are skipped, visibly, where they do not apply;
* a suite whose own tests were overridden, emptied or deleted is an error;
* a test with a ``dtype`` argument runs once per dtype the implementation claims, and the
  classmethod ``__fl_generate__(metafunc)`` may parametrise whatever else it likes;
* what the classmethod ``__fl_advice__(failed)`` says of the failed tests ends the report.

And for all tests: those marked ``fl_heavy`` can be sampled (``--fl-sample``).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance kits")
    group.addoption("--fl-report", metavar="FILE", help="write every outcome to FILE as JSON")
    group.addoption(
        "--fl-sample",
        metavar="SHARE",
        type=float,
        default=1.0,
        help="for slow implementations: of each test marked fl_heavy run at most this share of the "
        "cases (the same every time), so none of one without parameters; skip the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fl_requires(*capabilities): needs declared capabilities")
    config.addinivalue_line("markers", "fl_since(major, minor): needs a contract at least this new")
    config.addinivalue_line("markers", "fl_heavy: much arithmetic; sampled with --fl-sample")
    config.pluginmanager.register(Adviser(), "fl-adviser")
    target = config.getoption("--fl-report")
    if target:
        config.pluginmanager.register(Reporter(Path(target)), "fl-report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share: float = config.getoption("--fl-sample")
    cases: dict[str, list[pytest.Item]] = {}
    for item in items if share < 1.0 else ():
        if item.get_closest_marker("fl_heavy"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        found.sort(key=lambda item: zlib.crc32(item.nodeid.partition("[")[2].encode()))
        for item in found[int(share * len(found)) :]:
            item.add_marker(pytest.mark.skip(reason=f"heavy, and not in a sample of {share:g}"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    cls = metafunc.cls
    if not _is_suite(cls):
        return
    handled: set[str] = set()
    generate = getattr(cls, "__fl_generate__", None)
    if generate is not None:
        handled.update(generate(metafunc) or ())
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",")]
        handled.update(names)
    if "dtype" in metafunc.fixturenames and "dtype" not in handled:
        metafunc.parametrize("dtype", _dtypes(cls), ids=str)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    # Here every test of the class is in sight, whatever -k or node ids select later.
    cls: Any = getattr(collector, "obj", None) if isinstance(collector, pytest.Class) else None
    if report.passed and _is_suite(cls):
        items = [item for item in report.result if isinstance(item, pytest.Item)]
        # The root's own inspection, which no suite below it can replace.
        root: Any = next(base for base in reversed(cls.__mro__) if _is_suite(base))
        problems = root.__fl_problems__.__func__(cls) + _expect_failures(cls, items)
        problems += _doubtful_marks(collector)
        if problems:
            report.outcome = "failed"
            report.longrepr = "\n".join(f"{cls.__name__}: {line}" for line in problems)
            report.result = []
        else:
            _skip(cls, items)
    return report


def _is_suite(cls: type | None) -> bool:
    return bool(getattr(cls, "__fl_suite__", False))


def _subject(cls: type) -> Any:
    return getattr(cls, getattr(cls, "subject", ""), None)


def _dtypes(cls: Any) -> Iterable[Any]:
    claimed = getattr(_subject(cls), "dtypes", None)
    if claimed is None:
        return cls.dtypes or ()
    return sorted(claimed, key=str)


def _expect_failures(cls: Any, items: list[pytest.Item]) -> list[str]:
    stale = []
    for key, reason in cls.known_failures.items():
        named = [item for item in items if item.name == key or item.name.startswith(key + "[")]
        for item in named:
            item.add_marker(pytest.mark.xfail(reason=str(reason), strict=True))
        if not named:
            stale.append(f"known_failures names {key!r}, which matches no test; remove it")
    return stale


def _doubtful_marks(collector: pytest.Collector) -> list[str]:
    if any(collector.iter_markers("xfail")):
        return ["a whole suite cannot be marked xfail; name single tests in known_failures"]
    return []


def _skip(cls: Any, items: list[pytest.Item]) -> None:
    subject = _subject(cls)
    capabilities = getattr(subject, "capabilities", ())
    contract = tuple(getattr(subject, "CONTRACT", ()))
    for item in items:
        needed = [c for mark in item.iter_markers("fl_requires") for c in mark.args]
        missing = [c for c in needed if c not in capabilities]
        if missing:
            reason = f"capability not declared: {', '.join(missing)}"
            item.add_marker(pytest.mark.skip(reason=reason))
        for mark in item.iter_markers("fl_since"):
            if contract < mark.args:
                stated, wanted = (".".join(map(str, v)) for v in (contract, mark.args))
                reason = f"contract {stated} predates {wanted}"
                item.add_marker(pytest.mark.skip(reason=reason))


def _reason(report: pytest.TestReport) -> str:
    """What a failed test said, without the source around it; all of it where it said nothing."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None or crash.message == "AssertionError":
        return report.longreprtext
    message: str = crash.message
    return message.removeprefix("Failed: ")


class Adviser:
    """Let suites say at the end what all their failures together mean."""

    def __init__(self) -> None:
        self.failed: dict[Any, list[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        cls = getattr(item, "cls", None)
        if report.when == "call" and report.failed and _is_suite(cls):
            self.failed.setdefault(cls, []).append(item.name)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for cls, names in self.failed.items():
            if told := cls.__fl_advice__(names):
                terminalreporter.write_line(told)


class Reporter:
    """Collect outcomes and write them when the run ends."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.tests: dict[str, dict[str, Any]] = {}

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
        counts = {"passed": 0, "failed": 0, "skipped": 0, "xfailed": 0}
        for test in self.tests.values():
            counts[test["outcome"]] += 1
        body = {**counts, "tests": list(self.tests.values())}
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")

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
