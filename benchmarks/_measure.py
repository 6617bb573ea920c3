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
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

#: A context manager for a case, made anew for each of its turns.
Around = Callable[[], AbstractContextManager[Any]]


def interleave(
    cases: Mapping[str, Callable[[], object]],
    rounds: int = 15,
    moment: float = 0.02,
    around: Mapping[str, Around] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of ``clock`` per call of each case: the median over ``rounds`` of about ``moment``
    seconds. A case runs inside the context that ``around`` has for it, whose entering and leaving
    is not timed."""
    places = {name: (around or {}).get(name, nullcontext) for name in cases}
    repeats = {}
    for name, run in cases.items():
        with places[name]():
            repeats[name] = _repeats(run, moment, clock)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            with places[name]():
                times[name].append(timed(run, repeats[name], clock))
    return {name: statistics.median(found) for name, found in times.items()}


def _repeats(run: Callable[[], object], moment: float, clock: Callable[[], float]) -> int:
    count = 1
    while (spent := timed(run, count, clock) * count) < moment / 2:
        count *= 2 if spent < moment / 8 else 4
    return max(1, round(count * moment / spent))


def timed(run: Callable[[], object], count: int, clock: Callable[[], float]) -> float:
    """Seconds of ``clock`` per call, over ``count`` calls."""
    start = clock()
    for _ in range(count):
        run()
    return (clock() - start) / count


class Worker:
    """``python FILE --serve LIBRARY`` in a process of its own, where ``serve`` answers; with so
    many threads, another interpreter, and more in its environment if wanted.

    Between its turns the process is stopped: threads of a library that look for work for a while
    (OpenBLAS's do, for 0.1 s) would take a core from whoever has its turn next.
    """

    def __init__(
        self,
        library: str,
        threads: int = 1,
        *,
        tiny: bool = False,
        arguments: Sequence[str] = (),
        python: str = sys.executable,
        **environment: str,
    ) -> None:
        self._library = library
        pools = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
        self._process = subprocess.Popen(
            [
                *(python, sys.argv[0], "--serve", library),
                *(["--tiny"] if tiny else []),
                *arguments,
            ],
            env={**os.environ, **pools, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.communicate()

    def timed(self, case: str, count: int) -> float:
        """Seconds per call of a case, over ``count`` calls."""
        return float(self._request(f"{case} {count}"))

    def value(self, case: str) -> Any:
        """What a call of a case returns: something that JSON can say."""
        return self._request(f"{case} value")

    def begin(self, question: str) -> None:
        """Ask ``CASE COUNT`` or ``CASE value``; ``end`` gives the answer. Workers that depend on
        one another are all asked before the first has to answer."""
        assert self._process.stdin
        self._question = question
        self._process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # it ended before it read this
            print(question, file=self._process.stdin, flush=True)

    def end(self) -> Any:
        """The answer; the process is stopped then."""
        assert self._process.stdout
        answer = self._process.stdout.readline()
        self._process.send_signal(signal.SIGSTOP)
        if not answer:
            raise SystemExit(f"{self._library}: its process ended at {self._question!r}")
        return json.loads(answer)

    def _request(self, question: str) -> Any:
        self.begin(question)
        return self.end()


def serve(
    cases: Mapping[str, Callable[[], object]], clock: Callable[[], float] = time.perf_counter
) -> None:
    """Answer a ``Worker`` until it ends."""
    for line in sys.stdin:
        case, what = line.split()
        found = cases[case]() if what == "value" else timed(cases[case], int(what), clock)
        print(json.dumps(found), flush=True)


class OneAtATime(dict[str, Callable[[], object]]):
    """The cases of a library for ``serve``, made when asked for and called once, as the first call
    chooses kernels; only the last one is kept, so that it has the memory to itself."""

    def __init__(self, make: Callable[[str], Callable[[], object]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, case: str) -> Callable[[], object]:
        self.clear()
        self[case] = self._make(case)
        self[case]()
        return self[case]


class TakesTurns(Protocol):
    """A ``Worker``, or what stands for one in this process."""

    def timed(self, case: str, count: int) -> float:
        """Seconds per call of a case, over ``count`` calls."""


def take_turns(
    workers: Mapping[str, TakesTurns],
    case: str,
    rounds: int = 15,
    moment: float = 0.05,
    pause: float = 0.0,
    typical: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Seconds per call of a case in each of the ``workers``: as ``interleave``, or as ``typical``
    sums up the rounds. In a ``pause`` of
    some seconds before each turn the threads of whoever had the last one stop looking for work; a
    call that is not timed then brings caches back, where there are several in a turn."""
    repeats = {}
    for name, worker in workers.items():
        worker.timed(case, 1)  # what happens once
        repeats[name] = max(1, round(moment / worker.timed(case, 2)))
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            if pause:
                time.sleep(pause)
                if repeats[name] > 1:
                    worker.timed(case, 1)
            times[name].append(worker.timed(case, repeats[name]))
    return {name: typical(found) for name, found in times.items()}


def lower_quartile(times: list[float]) -> float:
    """The time that a quarter of the rounds stays below."""
    return sorted(times)[len(times) // 4]


def resident() -> int:
    """Bytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def most_resident() -> int:
    """The most that there have been so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def environment(*distributions: str) -> dict[str, Any]:
    """What a figure depends on: date, machine, Python, versions of ``distributions``."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: _version(name) for name in distributions},
    }


def processor() -> str:
    """What LLVM calls this processor; its architecture, where llvmlite is not installed."""
    try:
        from llvmlite.binding import get_host_cpu_name
    except ImportError:
        return platform.machine()
    return str(get_host_cpu_name())


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"  # a library of the system, or a checkout on the path


def parser_of(about: str | None, rounds: int | None = 15) -> argparse.ArgumentParser:
    """The command line that benchmarks share, for ``parsed``: how many rounds, if there are any,
    and what becomes of the result."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result there")
    parser.add_argument(
        "--add", action="store_true", help="keep the rows of FILE that this run has not measured"
    )
    parser.add_argument("--markdown", action="store_true", help="the table as README.md has it")
    parser.add_argument(
        "--tiny", action="store_true", help="miniatures of our own cases, once: only that they run"
    )
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments of this command, and ``moment``, how many seconds a case is timed in a round;
    ``--tiny`` is one round of next to none."""
    given = parser.parse_args()
    given.moment = 1e-4 if given.tiny else 0.05
    if given.tiny:
        given.rounds = 1
    return given


def options(about: str | None, rounds: int = 15) -> argparse.Namespace:
    """``parsed`` with ``--only CASE``, and ``--serve LIBRARY`` for a worker."""
    parser = parser_of(about, rounds)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    return parsed(parser)


def report(
    given: argparse.Namespace,
    about: Mapping[str, Any],
    rows: list[dict[str, Any]],
    key: Sequence[str] = (),
    finish: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list,
) -> list[dict[str, Any]]:
    """Print ``rows`` as a table and write them, with ``about``, where ``--json`` says. After
    ``--add`` they go into the rows of that file, in the place of those whose cells in the columns
    ``key`` (the first one, if none is named) are the same: a row is of one run, so that its ratios
    are those of its times. What ``finish`` makes of all rows is printed, written and returned."""
    if given.add and given.json and given.json.exists():
        before = json.loads(given.json.read_text())
        rows = _merged(before, about, rows, key or tuple(rows[0])[:1])
    rows = finish(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [[_text(row.get(column, "")) for column in columns] for row in rows]
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(_markdown(columns, lines) if given.markdown else _aligned(columns, lines))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        result = {"benchmark": Path(sys.argv[0]).stem, "environment": about, "rows": rows}
        given.json.write_text(json.dumps(result, indent=2) + "\n")
    return rows


def _merged(
    before: dict[str, Any],
    about: Mapping[str, Any],
    rows: list[dict[str, Any]],
    key: Sequence[str],
) -> list[dict[str, Any]]:
    # Rows of another day say which.
    then, now = before["environment"], about
    changed = {k for k in {*then, *now} if then.get(k) != now.get(k)}
    if changed - {"date"}:
        raise SystemExit(f"--add: that file was measured with another {', '.join(sorted(changed))}")
    day = {"date": then["date"]} if "date" in changed else {}
    found = {tuple(row.get(name) for name in key): {**day, **row} for row in before["rows"]}
    found |= {tuple(row.get(name) for name in key): row for row in rows}
    return list(found.values())


def _aligned(columns: list[str], lines: list[list[str]]) -> str:
    table = [columns, *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            [first.ljust(widths[0]), *(x.rjust(w) for x, w in zip(rest, widths[1:], strict=True))]
        )
        for first, *rest in table
    )


def _markdown(columns: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["--:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [columns, rule, *lines])


def _text(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if isinstance(value, int) or value >= 1000 else f"{value:.3g}"
    return str(value)
