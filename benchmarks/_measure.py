"""Fair comparisons: everything interleaved, reported as ratios of medians.

A machine's speed drifts while a benchmark runs. So each round times every case for a moment, one
after the other, and a case's time is the median over rounds. Where libraries would disturb one
another (pools of threads), each has its cases in a process of its own (``Worker``, ``serve``), and
the processes take turns.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
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


class Worker:
    """``python FILE --serve LIBRARY`` in a process of its own, where ``serve`` answers; with so
    many threads, and more in its environment if wanted."""

    def __init__(self, library: str, threads: int = 1, **environment: str) -> None:
        command = [sys.executable, sys.argv[0], "--serve", library]
        pools = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **pools, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def timed(self, case: str, count: int) -> float:
        """Seconds per call of a case, over ``count`` calls."""
        assert self._process.stdin and self._process.stdout
        print(case, count, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def serve(cases: Mapping[str, Callable[[], object]]) -> None:
    """Answer a ``Worker`` until it ends."""
    for line in sys.stdin:
        case, count = line.split()
        print(_timed(cases[case], int(count)), flush=True)


def take_turns(
    workers: Mapping[str, Worker], case: str, rounds: int = 15, moment: float = 0.05
) -> dict[str, float]:
    """Seconds per call of a case in each of the ``workers``: as ``interleave``."""
    repeats = {}
    for name, worker in workers.items():
        worker.timed(case, 1)  # what happens once
        repeats[name] = max(1, round(moment / worker.timed(case, 2)))
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            times[name].append(worker.timed(case, repeats[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def environment(*distributions: str) -> dict[str, Any]:
    """What a figure depends on: date, machine, Python, versions of ``distributions``."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: _version(name) for name in distributions},
    }


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"  # a library of the system, or a checkout on the path


def parser_of(claim: str | None, rounds: int = 15) -> argparse.ArgumentParser:
    """The command line that benchmarks share: ``--json FILE``, ``--rounds N``."""
    parser = argparse.ArgumentParser(
        description=claim, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def options(claim: str | None) -> argparse.Namespace:
    """That command line with ``--only CASE``, and ``--serve LIBRARY`` for a worker."""
    parser = parser_of(claim)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
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
