"""``fl-memory summary``: what a trace holds."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from fl_memory.cli.options import add_trace, table
from fl_memory.traces import KINDS, Trace, read


def main(arguments: list[str]) -> int:
    """Print facts, counts, and the operations and modules that allocate most."""
    parser = argparse.ArgumentParser(prog="fl-memory summary", description="What a trace holds.")
    add_trace(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--top", type=int, default=10, help="names of each table (%(default)s)")
    given = parser.parse_args(arguments)
    trace = read(given.trace, given.max_rows)
    found = {
        "facts": trace.facts,
        "rows": len(trace),
        **_counts(trace),
        "steps": max(trace.columns["step"], default=0),
        "peak_live_bytes": trace.peak_live_bytes,
    }
    largest = {name: allocated(trace, name, given.top) for name in ("operation", "module", "tag")}
    if given.json:
        print(json.dumps({**found, "largest": largest}, indent=1))
        return 0
    for name, value in found.items():
        print(f"{name}: {value}")
    for name, rows in largest.items():
        if rows:
            columns = ("bytes", "share", "blocks")
            shown = [
                {name: row["name"] or "(none)", **{c: row[c] for c in columns}} for row in rows
            ]
            print(f"\n{table(shown)}")
    return 0


def allocated(trace: Trace, column: str, most: int) -> list[dict[str, Any]]:
    """The names of a table that allocate the most bytes: bytes, share of all, blocks."""
    bytes_by_name: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    for kind, nbytes, name in trace.rows("kind", "nbytes", column):
        if KINDS[kind] == "alloc":
            bytes_by_name[name] += nbytes
            blocks[name] += 1
    total = bytes_by_name.total() or 1
    return [
        {
            "name": trace.tables[column][name],
            "bytes": nbytes,
            "share": nbytes / total,
            "blocks": blocks[name],
        }
        for name, nbytes in bytes_by_name.most_common(most)
    ]


def _counts(trace: Trace) -> dict[str, int]:
    counts = Counter(trace.columns["kind"])
    return {name: counts[number] for number, name in enumerate(KINDS)}
