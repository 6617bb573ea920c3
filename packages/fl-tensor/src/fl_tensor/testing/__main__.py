"""python -m fl_tensor.testing NAME: run the conformance kit on a backend."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from fl_tensor.errors import FlError


def main(arguments: list[str] | None = None) -> int:
    """The exit status is 0 when every test passed, 1 when some failed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m fl_tensor.testing", description=__doc__)
    parser.add_argument("name", help="an installed backend, or module:Class")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a report card (JSON)")
    parser.add_argument(
        "-k", dest="expression", default="", help="only tests that match, as pytest"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="one line per test")
    given = parser.parse_args(arguments)
    if find_spec("pytest") is None:
        print("the conformance kit needs pytest: install fl-tensor[testing]", file=sys.stderr)
        return 2
    from fl_tensor.testing import card
    from fl_tensor.testing.suite.base import resolve

    try:
        backend = resolve(given.name)
    except FlError as error:
        print(f"{error}", file=sys.stderr)
        return 2
    outcome, status = card.run(given.name, given.expression, given.verbose)
    if given.report:
        card.write(given.report, card.document(given.name, backend, outcome))
    passed, failed = outcome.count("passed"), outcome.count("failed") + len(outcome.broken)
    if not passed and not failed:
        print(f"no test ran: -k {given.expression!r} matches none")
        failed = 1
    for line in outcome.broken:
        print(line)
    # a failure that belongs to no test still is one
    failed = failed or int(status not in (0, 5))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
