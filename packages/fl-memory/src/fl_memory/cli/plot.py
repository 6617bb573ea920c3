"""``fl-memory plot``: pictures of a trace."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_memory import plot
from fl_memory.cli.options import add_managers, add_trace, managers_of
from fl_memory.traces import read, timeline

PLOTS = {
    "over-time": plot.over_time,
    "block-map": plot.block_map,
    "free-chunks": plot.free_chunks,
    "waste": plot.waste,
}


def main(arguments: list[str]) -> int:
    """Write a file for each plot and manager."""
    parser = argparse.ArgumentParser(
        prog="fl-memory plot",
        description="Plot a trace under managers: bytes live, used and reserved over time; a map "
        "of blocks, address by time; a histogram of free chunks, and waste by module, both at the "
        "peak. Needs fl-memory[plot].",
    )
    add_trace(parser)
    add_managers(parser, ["caching"])
    parser.add_argument("--plot", nargs="+", choices=PLOTS, default=list(PLOTS), help="(all)")
    parser.add_argument("--format", default="png", help="png, pdf, svg, ... (%(default)s)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="FOLDER", help="(this one)"
    )
    given = parser.parse_args(arguments)
    managers = managers_of(parser, given)
    trace = read(given.trace, given.max_rows)
    for name, manager in managers.items():
        state = timeline(trace, manager, hints=not given.no_hints)
        for kind in given.plot:
            suffix = "" if len(managers) == 1 else f"-{name}"
            path = given.output / f"{given.trace.stem}{suffix}-{kind}.{given.format}"
            PLOTS[kind](trace, state, title=f"{given.trace.stem}, {name}", path=path)
            print(path)
    return 0
