"""Fair comparisons: everything in one process, interleaved, reported as ratios of medians.

A machine's speed drifts while a benchmark runs. So each round times every case for a moment, one
after the other, and a case's time is the median over rounds.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

#: A context manager for a case, made anew for each of its turns.
Around = Callable[[], AbstractContextManager[Any]]


def interleave(
    cases: Mapping[str, Callable[[], object]],
    rounds: int = 15,
    moment: float = 0.02,
    around: Mapping[str, Around] | None = None,
) -> dict[str, float]:
    """Seconds per call of each case: the median over ``rounds`` of about ``moment`` seconds. A case
    runs inside the context that ``around`` has for it, whose entering and leaving is not timed."""
    places = {name: (around or {}).get(name, nullcontext) for name in cases}
    repeats = {}
    for name, run in cases.items():
        with places[name]():
            repeats[name] = _repeats(run, moment)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            with places[name]():
                times[name].append(_timed(run, repeats[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _repeats(run: Callable[[], object], moment: float) -> int:
    count = 1
    while (spent := _timed(run, count) * count) < moment / 2:
        count *= 2 if spent < moment / 8 else 4
    return max(1, round(count * moment / spent))


def _timed(run: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def environment(*distributions: str) -> dict[str, Any]:
    """What a figure depends on: date, machine, Python, versions of ``distributions``."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in distributions},
    }


def options(claim: str | None) -> argparse.Namespace:
    """The command line that all benchmarks share: ``--json FILE``, ``--rounds N``."""
    parser = argparse.ArgumentParser(description=claim)
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument("--rounds", type=int, default=15)
    return parser.parse_args()


def report(given: argparse.Namespace, about: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    """Print ``rows`` as a table, and write them with ``about`` where ``--json`` says."""
    columns = list(rows[0])
    text = [[_text(row[c]) for c in columns] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in text)) for i, c in enumerate(columns)]
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    for first, *others in [columns, *text]:
        cells = [first.ljust(widths[0])]
        cells += [v.rjust(w) for v, w in zip(others, widths[1:], strict=True)]
        print("  ".join(cells))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        result = {"benchmark": Path(sys.argv[0]).stem, "environment": about, "rows": rows}
        given.json.write_text(json.dumps(result, indent=2) + "\n")


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
