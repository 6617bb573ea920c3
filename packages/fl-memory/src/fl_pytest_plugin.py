"""Hooks for the conformance kits. Imports pytest alone, because it loads in every pytest run.

A suite is a class that derives from ``fl_memory.testing.kit.Suite``; it is recognised by its
attribute ``__fl_suite__``, so nothing of this library is imported for anybody else's tests.
What the hooks do for a suite class:

* ``known_failures`` become strict expected failures; a key that matches no test is an error;
* tests marked ``requires`` and ``since`` are skipped, visibly, where they do not apply;
* a suite whose own tests were overridden, emptied or deleted is an error;
* a test with a ``dtype`` argument runs once per dtype the implementation claims, and the
  classmethod ``__fl_generate__(metafunc)`` may parametrise whatever else it likes;
* what the classmethod ``__fl_advice__(failed)`` says of the failed tests ends the report;
* with ``--fl-quick``, tests whose names the classmethod ``__fl_quick__(names)`` gives are left out.

And for all tests: those marked ``fl_heavy`` can be sampled (``--fl-sample``).
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance kits")
    group.addoption(
        "--fl-report",
        metavar="FILE",
        help="write every outcome to FILE as JSON, as soon as the test is over",
    )
    group.addoption("--fl-report-about", default="{}", help=argparse.SUPPRESS)
    group.addoption(
        "--fl-quick",
        action="store_true",
        help="for implementations that compile each shape: of the kinds of samples that a suite "
        "has for one thing, run the first alone",
    )
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
    if target and not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the first
        from fl_memory.testing.report import Reporter

        about = json.loads(config.getoption("--fl-report-about"))
        config.pluginmanager.register(Reporter(Path(target), about), "fl-report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fl-quick"):
        _leave_out(config, items)
    share: float = config.getoption("--fl-sample")
    cases: dict[str, list[pytest.Item]] = {}
    for item in items if share < 1.0 else ():
        if item.get_closest_marker("fl_heavy"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        found.sort(key=lambda item: zlib.crc32(item.nodeid.partition("[")[2].encode()))
        for item in found[int(share * len(found)) :]:
            item.add_marker(pytest.mark.skip(reason=f"heavy, and not in a sample of {share:g}"))


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    suites: dict[Any, list[pytest.Item]] = {}
    for item in items:
        cls = getattr(item, "cls", None)
        if _is_suite(cls):
            suites.setdefault(cls, []).append(item)
    left_out: dict[int, pytest.Item] = {}
    for cls, found in suites.items():
        names = cls.__fl_quick__([item.name for item in found])
        left_out.update((id(item), item) for item in found if item.name in names)
    items[:] = [item for item in items if id(item) not in left_out]
    if left_out:
        config.hook.pytest_deselected(items=list(left_out.values()))


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
