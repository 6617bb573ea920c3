"""``fl-memory export``: a trace for Perfetto or Chrome's ``about:tracing``."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_memory.cli.options import add_managers, add_trace, managers_of
from fl_memory.traces import read, write_chrome


def main(arguments: list[str]) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(
        prog="fl-memory export",
        description="Write a trace, replayed through a manager, in the JSON format that Perfetto "
        "(https://ui.perfetto.dev) and Chrome's about:tracing read.",
    )
    add_trace(parser)
    add_managers(parser, ["caching"])
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: TRACE.json")
    given = parser.parse_args(arguments)
    managers = managers_of(parser, given)
    if len(managers) != 1:
        parser.error("expected one manager")
    trace = read(given.trace, given.max_rows)
    output = given.output or given.trace.with_suffix(".json")
    for manager in managers.values():
        write_chrome(trace, output, manager, hints=not given.no_hints)
    print(output)
    return 0
