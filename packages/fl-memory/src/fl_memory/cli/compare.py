"""``fl-memory compare``: figures of several managers on traces."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from fl_memory.cli.options import add_managers, add_trace, managers_of, progress, table
from fl_memory.selection import available
from fl_memory.traces import AnyManager, compare, planned_off_line, read
from fl_memory.traces.compare import RESOLUTION

SHOWN = ("manager", "over", "fits", "internal", "external", "device_allocs")


def main(arguments: list[str]) -> int:
    """Print a table for each trace."""
    parser = argparse.ArgumentParser(
        prog="fl-memory compare",
        description="Compare managers on traces. over: peak reserved / peak live bytes without a "
        "bound. fits: minimum capacity / peak live. internal: 1 - live / used at peak used. "
        "external: 1 - peak used / peak reserved.",
    )
    add_trace(parser, many=True)
    add_managers(parser, available())
    parser.add_argument(
        "--off-line", action="store_true", help="compare a plan with all lifetimes known, too"
    )
    parser.add_argument("--json", action="store_true", help="all figures, as JSON")
    parser.add_argument(
        "--resolution",
        type=float,
        default=RESOLUTION,
        help="of fits, as a share of peak live (%(default)s)",
    )
    given = parser.parse_args(arguments)
    managers: dict[str, AnyManager] = {**managers_of(parser, given)}
    results: list[dict[str, Any]] = []
    for path in given.traces:
        trace = read(path, given.max_rows)
        compared = {**managers}
        if given.off_line:
            compared["planned off line"] = planned_off_line(trace)
        rows = []
        for name in progress(compared, len(compared), sys.stderr):
            rows += compare(
                trace,
                {name: compared[name]},
                hints=not given.no_hints,
                resolution=given.resolution,
            )
        figures = [row.as_dict() for row in rows]
        results.append({"trace": path.name, "facts": trace.facts, "managers": figures})
        if not given.json:
            live = trace.peak_live_bytes
            print(f"{path}: {len(trace)} rows, {live} bytes live at the peak")
            print(table([{key: row[key] for key in SHOWN} for row in figures]), end="\n\n")
    if given.json:
        print(json.dumps(results, indent=1))
    return 0
