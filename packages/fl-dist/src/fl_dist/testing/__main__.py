"""python -m fl_dist.testing NAME: run the conformance kit on a communicator."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from fl_dist.errors import FlError
from fl_dist.registry import load


def main(arguments: list[str] | None = None) -> int:
    """The exit status is 0 when every test passed, 1 when some failed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m fl_dist.testing", description=__doc__)
    parser.add_argument("name", help="an installed communicator, or module:Class")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a report card (JSON)")
    parser.add_argument("-k", dest="expression", default="", help="only matching tests, as pytest")
    parser.add_argument("-v", "--verbose", action="store_true", help="one line per test")
    given = parser.parse_args(arguments)
    if find_spec("pytest") is None:
        print("the conformance kit needs pytest: install fl-dist[testing]", file=sys.stderr)
        return 2
    from fl_dist.testing import card

    try:
        kind = load(given.name)
    except FlError as error:
        print(error, file=sys.stderr)
        return 2
    outcome = card.run(given.name, given.expression, given.verbose)
    if given.report:
        card.write(given.report, card.document(kind, outcome))
    failed = outcome.count("failed")
    if failed and not outcome.count("passed"):
        print(*outcome.reasons.values(), sep="\n")
    print(f"{outcome.count('passed')} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
