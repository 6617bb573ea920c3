"""How much memory managers waste: the six models of the paper, and training on random lengths.

No claim. Each model trains for some steps under `fl-memory record`, on each backend. The traces are
then replayed through managers, with limits on the splitting of large chunks fixed beforehand: 24
and 64 MiB. docs/memory-study.md defines the columns and discusses the results.

    python benchmarks/memory_study.py [--only alexnet bert] [--backends numpy jit] [--steps N]
        [--traces FOLDER] [--json FILE [--add]] [--markdown] [--tables]

`--traces FOLDER` keeps the traces, and reads those that are there. The largest model (asr) needs
about 8 GB while it is recorded; replays need nothing. Each model and backend is recorded in a
process of its own. `--tiny` records miniatures of two models on `numpy`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from _measure import environment, parsed, parser_of, report

import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from cases import settle
from cases.lengths import NextToken
from fl_memory import traces
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.planned import PlannedManager
from models import MODELS

LENGTHS = ("lstm", "transformer")
#: The first steps differ: deferred execution makes its plans, `planned` too. Random lengths go on.
STEPS = {"models": 5, "lengths": 12}
NAMES = (*MODELS, *LENGTHS)
BACKENDS = ("numpy", "jit")
LR, MOMENTUM = 1e-3, 0.9


def limited(mib: int, **settings: Any) -> traces.AnyManager:
    """`caching` that keeps chunks from so many MiB on whole."""
    return partial(CachingManager, split_limit=mib << 20, **settings)


#: By the names in the table. `requests`: PyTorch's rule; `chunks`: Flashlight's; `held`: chunks of
#: the limit and more are not lent again, either (Flashlight's recycling limit).
MANAGERS: dict[str, traces.AnyManager] = {
    "system": "system",
    "caching": "caching",
    "caching, requests < 24 MiB": limited(24, split_rule="request"),
    "caching, requests < 64 MiB": limited(64, split_rule="request"),
    "caching, chunks < 24 MiB": limited(24, split_rule="chunk"),
    "caching, chunks < 64 MiB": limited(64, split_rule="chunk"),
    "caching, chunks < 24 MiB, held": limited(24, split_rule="chunk", recycling_limit=24 << 20),
    "caching, chunks < 64 MiB, held": limited(64, split_rule="chunk", recycling_limit=64 << 20),
    "best_fit": "best_fit",
    "buddy": "buddy",
    "exact": "exact",
    "arena": "arena",
    "planned": "planned",
}
HINTED, OFF_LINE = "caching, with hints", "planned off line"


def train(name: str, backend: str, steps: int, tiny: bool) -> None:
    """What is recorded: training as a user writes it."""
    ft.use(backend)
    ft.seed(0)
    if name in LENGTHS:
        model = NextToken(name, **(dict(tokens=20, size=16, steps=16) if tiny else {}))
        batches = [model.batch(step) for step in range(steps)]
    else:
        chosen = MODELS[name]
        model = chosen.build(**(chosen.small if tiny else {}))
        batches = [model.batch(2 if tiny else chosen.size, ft.Generator(1))] * steps
    optimizer = nn.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    for step, batch in enumerate(batches, 1):
        mem.mark("step", step)
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        optimizer.step()
        print(f"{name} on {backend}, step {step}: loss {loss.item():.4f}", flush=True)
        settle()  # plans are ready at the next step, however busy the machine is


def record(name: str, backend: str, given: argparse.Namespace, path: Path) -> None:
    """Record a model in a process of its own."""
    steps = given.steps or STEPS["lengths" if name in LENGTHS else "models"]
    facts = {"model": name, "backend": backend, "steps": steps}
    if name in MODELS:
        facts["batch"] = 2 if given.tiny else MODELS[name].size
    command = [sys.executable, "-m", "fl_memory", "record", "-o", str(path)]
    for key, value in facts.items():
        command += ["--fact", f"{key}={value}"]
    command += ["--", __file__, "--train", name, "--backends", backend]
    command += ["--steps", str(steps), *(["--tiny"] if given.tiny else [])]
    subprocess.run(command, check=True, stdout=sys.stderr)


def rows_of(name: str, backend: str, trace: traces.Trace) -> list[dict[str, Any]]:
    """The figures of all managers."""
    found = traces.compare(trace, MANAGERS, hints=False)
    if any(traces.KINDS[kind] == "reserve_hint" for kind in trace.columns["kind"]):
        (hinted,) = traces.compare(trace, {HINTED: "caching"})
        found.insert(2, hinted)
    found += traces.compare(trace, {OFF_LINE: traces.planned_off_line(trace)})
    return [
        {
            "model": name,
            "backend": backend,
            "steps": int(trace.facts["steps"]),
            "manager": row.manager,
            "live, MB": row.replay.peak_live_bytes / 1e6,
            "over": row.replay.over,
            "fits": row.fits or "none",
            "internal": row.replay.internal,
            "external": row.replay.external,
            "native": row.replay.device_allocs,
            **({"last step": last_step(trace)} if row.manager == "planned" else {}),
        }
        for row in found
    ]


def last_step(trace: traces.Trace) -> float:
    """Peak reserved / peak live of `planned` in the last step, which follows a plan."""
    marks = [row for row, (kind,) in enumerate(trace.rows("kind")) if traces.KINDS[kind] == "mark"]
    begin, memory, made = marks[-1], traces.AddressMemory(device=trace.device), []
    live = reserved = 0

    def make(memory: mem.DeviceMemory) -> mem.MemoryManager:
        made.append(PlannedManager(memory))
        return made[0]

    def each(row: int, block: mem.Block | None) -> None:
        nonlocal live, reserved
        if row >= begin:
            live = max(live, made[0].stats().live_bytes)
            reserved = max(reserved, memory.reserved_bytes)

    traces.replay(trace, make, memory, hints=False, each=each)
    return reserved / live


def tables(rows: list[dict[str, Any]]) -> str:
    """The tables of docs/memory-study.md: a line for each manager, a column for each trace."""
    columns = list(dict.fromkeys((row["model"], row["backend"]) for row in rows))
    cells = {(row["manager"], row["model"], row["backend"]): row for row in rows}
    order = ["system", "caching", HINTED, *list(MANAGERS)[2:], OFF_LINE]
    limits = [name for name in order if "MiB" in name]

    def waste(row: dict[str, Any]) -> str:
        """The change of ``fits - 1`` against ``caching`` without a limit."""
        plain = cells["caching", row["model"], row["backend"]]
        if isinstance(row["fits"], str) or plain["fits"] == 1:
            return ""
        return f"{100 * (row['fits'] - plain['fits']) / (plain['fits'] - 1):+.0f}"

    found = []
    for title, managers, words in (
        ("fits (over)", order, _needed),
        ("internal / external, %", order, _lost),
        ("waste, %", limits, waste),
        ("last step", ["planned"], _last),
    ):
        header = [title, *(f"{model} {backend}" for model, backend in columns)]
        lines = [header, ["---", *["--:"] * len(columns)]]
        for manager in managers:
            known = [cells.get((manager, *column)) for column in columns]
            lines.append([manager, *("" if row is None else words(row) for row in known)])
        found.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(found)


def _needed(row: dict[str, Any]) -> str:
    fits = row["fits"]
    return f"{fits if isinstance(fits, str) else format(fits, '.3f')} ({row['over']:.2f})"


def _last(row: dict[str, Any]) -> str:
    return f"{row['last step']:.3f}"


def _lost(row: dict[str, Any]) -> str:
    return f"{100 * row['internal']:.1f} / {100 * row['external']:.1f}"


def main() -> None:
    parser = parser_of(__doc__, rounds=None)
    parser.add_argument("--only", nargs="+", choices=NAMES)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS)
    parser.add_argument("--steps", type=int, help="default: 5 of a model, 12 of random lengths")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="keep traces there")
    parser.add_argument("--tables", action="store_true", help="print those of the page, too")
    parser.add_argument("--train", choices=NAMES, help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.train:
        train(given.train, given.backends[0], given.steps, given.tiny)
        return
    names = given.only or (("alexnet", "lstm") if given.tiny else NAMES)
    backends = given.backends or (BACKENDS[:1] if given.tiny else BACKENDS)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="fl-memory-study-") as temporary:
        folder = given.traces or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            for backend in backends:
                path = folder / f"{name}-{backend}.flmt"
                if not path.exists():
                    record(name, backend, given, path)
                rows += rows_of(name, backend, traces.read(path))
    about = environment("numpy", "fl-tensor", "fl-memory")
    rows = report(given, about, rows, key=("model", "backend", "manager"))
    if given.tables:
        print(tables(rows))


if __name__ == "__main__":
    main()
