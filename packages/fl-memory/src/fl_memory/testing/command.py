"""The command behind ``python -m fl_memory.testing NAME``, shared by all three kits.

It writes a small test file and runs pytest on it in a new process. In this process modules are
imported already, so pytest could not rewrite their assertions.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fl_memory.errors import FlError
from fl_memory.plugins import Registry

OUTCOMES = ("passed", "failed", "skipped", "xfailed")

_TEST_FILE = """\
import importlib

from {suite_module} import {suite_name}

implementation = importlib.import_module({module!r})
for part in {path!r}.split("."):
    implementation = getattr(implementation, part)


class Test{title}({suite_name}):
    {attribute} = implementation
"""


def run(
    arguments: list[str] | None,
    *,
    registry: Registry,
    suite: str,
    attribute: str,
    prog: str,
    parents: Sequence[argparse.ArgumentParser] = (),
) -> int:
    """Run a suite on one implementation; the exit status, 0 when all is well.

    registry: where names are looked up; suite: ``"module:Class"``; attribute: the suite's class
    attribute that takes the implementation; parents: options of the caller's own, for the help. A
    module is looked for in the current folder, too. The last line printed is ``N passed, M
    failed``, with the reason after it where no test ran.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description=f"Run the conformance suite on one {registry.what}: exit status 0 when every "
        f"test passed, 1 when some failed, 2 when there is none of that name.",
        epilog="What is not listed here goes to pytest, such as -x or --maxfail=3.",
        parents=list(parents),
    )
    parser.add_argument(
        "name", help="name of an installed one, or module:Class (installed or in this folder)"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write every outcome to this file as JSON, as soon as the test is over",
    )
    parser.add_argument(
        "-k", dest="only", metavar="EXPR", help="only the tests that match, as in pytest: 'add-'"
    )
    options, for_pytest = parser.parse_known_args(arguments)
    if "" not in sys.path:  # a console script does not look here; `python -m` does
        sys.path.insert(0, "")
    try:
        implementation = registry.load(options.name)
    except FlError as error:
        print(error, file=sys.stderr)
        print(f"0 passed, 0 failed: no test ran, {options.name} cannot be loaded")
        return 2
    about = {
        "what": registry.what,
        "name": options.name,
        "implementation": f"{implementation.__module__}:{implementation.__qualname__}",
        "contract": ".".join(map(str, implementation.CONTRACT)),
        "hosted_contract": str(registry.host),
        "python": ".".join(map(str, sys.version_info[:3])),
        "arguments": [*(["-k", options.only] if options.only else []), *for_pytest],
    }
    with tempfile.TemporaryDirectory(prefix="fl-conformance-") as folder, _ends_with_its_child():
        outcome = _run_pytest(
            Path(folder),
            _TEST_FILE.format(
                suite_module=suite.partition(":")[0],
                suite_name=suite.partition(":")[2],
                module=implementation.__module__,
                path=implementation.__qualname__,
                title=implementation.__name__,
                attribute=attribute,
            ),
            options.report,
            about,
        )
    if options.report is not None:
        draft = options.report.with_name(options.report.name + ".new")
        draft.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
        os.replace(draft, options.report)
    print(f"{outcome['skipped']} skipped, {outcome['xfailed']} known failures")
    ran = outcome["passed"] or outcome["failed"]
    note = (
        ""
        if ran
        else ": no test ran" + (f", -k {options.only!r} fits none" if options.only else "")
    )
    print(f"{outcome['passed']} passed, {outcome['failed']} failed{note}")
    return 0 if outcome["passed"] and not outcome["failed"] else 1


def _run_pytest(
    folder: Path, test_file: str, target: Path | None, about: dict[str, Any]
) -> dict[str, Any]:
    """What the report says: ``about``, counts, tests. It is at ``target`` while the tests run."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_conformance.py").write_text(test_file, encoding="utf-8")
    report = folder / "report.json" if target is None else target.absolute()
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rsx", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-p", "fl_pytest_plugin", "--strict-markers", "--fl-report", str(report)]
    command += ["--fl-report-about", json.dumps(about)]
    command += ["-c", str(folder / "pytest.ini"), "--rootdir", str(folder)]
    sys.stdout.flush()
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    status = subprocess.run(
        [*command, *about["arguments"], str(folder / "test_conformance.py")],
        check=False,
        env=environment,
    ).returncode
    counts = {**dict.fromkeys(OUTCOMES, 0), "finished": False}
    outcome: dict[str, Any] = {**about, **counts, "tests": []}
    if report.is_file():
        outcome = json.loads(report.read_text(encoding="utf-8"))
        if outcome["finished"] and (status == 0 or outcome["failed"] or not outcome["passed"]):
            return {**outcome, "tests": outcome.pop("tests")}
    # pytest itself broke down (a crash of native code, a wrong option): that is no success.
    note = {"name": "pytest", "outcome": "failed", "reason": f"exit status {status}"}
    failed = outcome["failed"] + 1
    return {**outcome, "failed": failed, "tests": [*outcome.pop("tests"), note]}


@contextmanager
def _ends_with_its_child() -> Iterator[None]:
    """Where this process is told to end, so is the one that runs the tests."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not its affair
        return

    def end(signum: int, frame: object) -> None:
        sys.exit(128 + signum)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
