"""``fl-memory min-capacity``: the least memory on which a trace runs."""

from __future__ import annotations

import argparse
import json
import sys

from fl_memory.cli.options import add_managers, add_trace, managers_of, progress, table
from fl_memory.traces import minimum_capacity, read
from fl_memory.traces.compare import RESOLUTION


def main(arguments: list[str]) -> int:
    """Print the capacity for each manager; 1 where none is enough."""
    parser = argparse.ArgumentParser(
        prog="fl-memory min-capacity",
        description="The least capacity of a device, in bytes, on which a trace runs.",
    )
    add_trace(parser)
    add_managers(parser, ["caching"])
    parser.add_argument(
        "--resolution",
        type=float,
        default=RESOLUTION,
        help="of the search, as a share of peak live (%(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    given = parser.parse_args(arguments)
    managers = managers_of(parser, given)
    trace = read(given.trace, given.max_rows)
    live = max(trace.peak_live_bytes, 1)
    rows = []
    for name in progress(managers, len(managers), sys.stderr):
        least = minimum_capacity(
            trace, managers[name], hints=not given.no_hints, resolution=given.resolution
        )
        fits = None if least is None else least / live
        rows.append({"manager": name, "minimum_capacity": least, "fits": fits})
    print(json.dumps(rows, indent=1) if given.json else table(rows))
    return 0 if all(row["minimum_capacity"] is not None for row in rows) else 1
