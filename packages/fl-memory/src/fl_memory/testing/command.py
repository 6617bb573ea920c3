"""The command behind ``python -m fl_memory.testing NAME``, shared by all three kits.

It writes the few lines that a third party would write, and runs pytest on them in a process of its
own: in this one, modules are imported already, too late for pytest to show what assertions saw.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fl_memory.errors import FlError
from fl_memory.plugins import Registry

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
        "--report", type=Path, metavar="FILE", help="write every outcome to this file as JSON"
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
    with tempfile.TemporaryDirectory(prefix="fl-conformance-") as folder:
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
            [*(["-k", options.only] if options.only else []), *for_pytest],
        )
    outcome = {
        "what": registry.what,
        "name": options.name,
        "implementation": f"{implementation.__module__}:{implementation.__qualname__}",
        "contract": ".".join(map(str, implementation.CONTRACT)),
        "hosted_contract": str(registry.host),
        "python": ".".join(map(str, sys.version_info[:3])),
        **outcome,
    }
    if options.report is not None:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    print(f"{outcome['skipped']} skipped, {outcome['xfailed']} known failures")
    ran = outcome["passed"] or outcome["failed"]
    note = (
        ""
        if ran
        else ": no test ran" + (f", -k {options.only!r} fits none" if options.only else "")
    )
    print(f"{outcome['passed']} passed, {outcome['failed']} failed{note}")
    return 0 if outcome["passed"] and not outcome["failed"] else 1


def _run_pytest(folder: Path, test_file: str, more: list[str]) -> dict[str, Any]:
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_conformance.py").write_text(test_file, encoding="utf-8")
    report = folder / "report.json"
    command = [sys.executable, "-m", "pytest", "-q", "-rsx", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-p", "fl_pytest_plugin", "--strict-markers", "--fl-report", str(report)]
    command += ["-c", str(folder / "pytest.ini"), "--rootdir", str(folder)]
    sys.stdout.flush()
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    status = subprocess.run(
        [*command, *more, str(folder / "test_conformance.py")], check=False, env=environment
    ).returncode
    if report.is_file():
        outcome: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        if status == 0 or outcome["failed"] or not outcome["passed"]:
            return outcome
    # pytest itself broke down (a crash of native code, a wrong option): that is no success.
    note = {"name": "pytest", "outcome": "failed", "reason": f"exit status {status}"}
    return {"passed": 0, "failed": 1, "skipped": 0, "xfailed": 0, "tests": [note]}
