"""``fl-memory replay``: a trace through one manager."""

from __future__ import annotations

import argparse
import json
import sys
import time

from fl_memory.cli.options import add_managers, add_trace, managers_of, size_argument
from fl_memory.traces import AddressMemory, read, replay


def main(arguments: list[str]) -> int:
    """Replay, and print the figures; 1 where the manager ran out of memory."""
    parser = argparse.ArgumentParser(
        prog="fl-memory replay",
        description="Replay a trace through managers, on a device of addresses alone, and print "
        "their figures. The exit status is 1 where one of them runs out of memory.",
    )
    add_trace(parser)
    add_managers(parser, ["caching"])
    parser.add_argument("--capacity", type=size_argument, help="of the device, such as 2GiB")
    parser.add_argument("--json", action="store_true", help="as JSON")
    given = parser.parse_args(arguments)
    managers = managers_of(parser, given)
    trace = read(given.trace, given.max_rows)
    status = 0
    results = []
    for name, manager in managers.items():
        start = time.perf_counter()
        memory = AddressMemory(given.capacity, device=trace.device)
        run = replay(trace, manager, memory, hints=not given.no_hints)
        seconds = time.perf_counter() - start
        figures = {
            "manager": name,
            "over": run.over,
            "internal": run.internal,
            "external": run.external,
            "peak_live_bytes": run.peak_live_bytes,
            "peak_used_bytes": run.peak_used_bytes,
            "peak_reserved_bytes": run.peak_reserved_bytes,
            "allocs": run.allocs,
            "device_allocs": run.device_allocs,
            "rows": run.rows,
            "rows_per_minute": round(60 * run.rows / max(seconds, 1e-9)),
        }
        if run.out_of_memory is not None:
            status = 1
            step = trace.columns["step"][run.rows]
            figures["out_of_memory"] = str(run.out_of_memory)
            message = f"{name}: row {run.rows} of {len(trace)}, step {step}: {run.out_of_memory}"
            print(f"fl-memory replay: {message}", file=sys.stderr)
        results.append(figures)
    if given.json:
        print(json.dumps(results, indent=1))
    else:
        for figures in results:
            for key, value in figures.items():
                print(f"{key}: {value:.3f}" if isinstance(value, float) else f"{key}: {value}")
    return status
