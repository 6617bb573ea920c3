"""Pytest hooks for the conformance kits. Imports only pytest, because it loads in every pytest run.

A suite is a class that derives from ``fl_memory.testing.kit.Suite``. It is recognised by its
attribute ``__fl_suite__``, so other tests import nothing of this library. For a suite class:

* ``known_failures`` become strict expected failures; a key that matches no test is an error;
* tests marked ``requires`` and ``since`` are skipped, visibly, where they do not apply;
* a suite whose own tests were overridden, emptied or deleted is an error;
* a test with a ``dtype`` argument runs once per dtype that the implementation claims;
* the classmethod ``__fl_generate__(metafunc)`` may parametrise other arguments;
* the text of the classmethod ``__fl_advice__(failed)`` ends the report;
* with ``--fl-quick``, the tests that ``__fl_quick__(names)`` returns are left out.

For all tests: those marked ``fl_heavy`` can be sampled (``--fl-sample``), and the fixture
``fl_peak_memory`` bounds the memory that a test needs.
"""

from __future__ import annotations

import argparse
import gc
import json
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from io import FileIO
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


@pytest.fixture
def fl_peak_memory() -> type[Any]:
    """``with fl_peak_memory(at_most=1 << 20): ...`` fails if the tensors of the block need more
    bytes at once. See ``fl_memory.testing.PeakMemory``."""
    found: type[Any] = import_module("fl_memory.testing").PeakMemory
    return found


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fl_requires(*capabilities): needs declared capabilities")
    config.addinivalue_line("markers", "fl_since(major, minor): needs a contract at least this new")
    config.addinivalue_line("markers", "fl_heavy: much arithmetic; sampled with --fl-sample")
    config.pluginmanager.register(Adviser(), "fl-adviser")
    target = config.getoption("--fl-report")
    if target and not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the first
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


def _reason(report: pytest.TestReport) -> str:
    """What a failed test said, without the source around it; all of it where it said nothing."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None or crash.message == "AssertionError":
        return report.longreprtext
    message: str = crash.message
    return message.removeprefix("Failed: ")


@contextmanager
def _no_finalisers() -> Iterator[None]:
    """No garbage collection, while a failure is formatted.

    What a broken manager left behind may fail in its finaliser. Python prints that failure by means
    of ``ast``, which is at work already: some versions raise SystemError then, and pytest ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Adviser:
    """Let suites say at the end what all their failures together mean."""

    def __init__(self) -> None:
        self.failed: dict[Any, list[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        cls = getattr(item, "cls", None)
        with _no_finalisers() if _is_suite(cls) else nullcontext():
            report = yield
        if report.when == "call" and report.failed and _is_suite(cls):
            self.failed.setdefault(cls, []).append(item.name)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for cls, names in self.failed.items():
            if told := cls.__fl_advice__(names):
                terminalreporter.write_line(told)


class Reporter:
    """Writes every outcome to ``target``, after what ``about`` says of the run: JSON that is whole
    after every test.

        {"tests": [
        {"name": "test_add[int32]", "outcome": "passed", "reason": "", "seconds": 0.01},
        {"name": "test_add[float32]", "outcome": "failed", "reason": "...", "seconds": 0.02}
        ], "passed": 1, "failed": 1, "skipped": 0, "xfailed": 0, "finished": false}

    A test is written as soon as it is over, in the place of the last line of the file, by one call.
    A run that is stopped or killed leaves what it has done, with ``finished`` false.
    """

    def __init__(self, target: Path, about: Mapping[str, Any]) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.counts = dict.fromkeys(("passed", "failed", "skipped", "xfailed"), 0)
        self.stopped = False
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

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # A collection that failed comes here, too, as a class derived from it.
        self.stopped = excinfo.type is KeyboardInterrupt

    def pytest_sessionfinish(self) -> None:
        self._write("", finished=not self.stopped)

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
