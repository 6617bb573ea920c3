"""What a node of the graph costs: a chain and a tree of 1,000,000 operations on single numbers,
recorded and differentiated, against PyTorch.

Claim: at most 0.6 times PyTorch's time (recording and backward together) and 0.6 times its memory
(the most that the process grows by), as users write it: Python's search for reference cycles on in
both. "paused" is without that search in both (``ag.large_graph()``, ``gc.disable()``).

Each of the four runs in processes of its own, so that peaks are its own; they take turns, and a
ratio is that of the medians.

    python benchmarks/autograd_nodes.py [--nodes 1000000] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from _measure import environment, parser_of, report

LIBRARIES = ("torch", "fl-autograd")
#: What runs in processes of its own: each library, with Python's collector on and paused.
SIDES = tuple((library, paused) for paused in (False, True) for library in LIBRARIES)
SHAPES = ("chain", "tree")


def leaves(library: str) -> tuple[Any, Any]:
    """Two numbers that require a gradient, float32."""
    if library == "torch":
        import torch

        torch.set_num_threads(1)
        return torch.tensor(1.0, requires_grad=True), torch.tensor(0.999, requires_grad=True)
    import fl_autograd as ag

    return ag.Variable(1.0, requires_grad=True), ag.Variable(0.999, requires_grad=True)


def chain(x: Any, y: Any, nodes: int) -> Any:
    """x y + x, times y, plus x, ...: every operation waits for the one before."""
    z = x
    for _ in range(nodes // 2):
        z = z * y + x
    return z


def tree(x: Any, y: Any, nodes: int) -> Any:
    """Products, and the sum of all of them in pairs, pairs of pairs, ...; half of all operations
    each."""
    level = [x * y for _ in range(nodes // 2)]
    while len(level) > 1:
        last = level[len(level) & ~1 :]
        level = [a + b for a, b in zip(level[::2], level[1::2])] + last
    return level[0]


def resident() -> int:
    """Bytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def pausing(library: str) -> AbstractContextManager[None]:
    """What a user of the library writes to stop the search for reference cycles."""
    if library == "torch":
        return without_collector()
    import fl_autograd as ag

    return ag.large_graph()


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def measure(library: str, paused: bool, shape: str, nodes: int) -> dict[str, float]:
    """Seconds and bytes of one graph, in this process."""
    with pausing(library) if paused else nullcontext():
        return graph(library, shape, nodes)


def graph(library: str, shape: str, nodes: int) -> dict[str, float]:
    """Record one graph and go back through it."""
    build = {"chain": chain, "tree": tree}[shape]
    x, y = leaves(library)
    build(x, y, 100).backward()  # makes what is made once
    x.grad = y.grad = None
    gc.collect()
    before, start = resident(), time.perf_counter()
    result = build(x, y, nodes)
    built = time.perf_counter()
    held = resident()
    result.backward()
    done = time.perf_counter()
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slopes = [float(x.grad.item()), float(y.grad.item())]
    return {
        "nodes": nodes,
        "record": built - start,
        "backward": done - built,
        "total": done - start,
        "held": held - before,
        "peak": peak - before,
        "x": slopes[0],
        "y": slopes[1],
    }


def in_a_process(library: str, paused: bool, shape: str, nodes: int) -> dict[str, float]:
    one = [library, "paused" if paused else "on", shape]
    command = [sys.executable, __file__, "--one", *one, "--nodes", str(nodes)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def rows_of(shape: str, runs: dict[tuple[str, bool], list[dict[str, float]]]) -> list[Any]:
    """A row per quantity: both libraries and their ratio, with the collector on and paused."""
    nodes = runs[SIDES[0]][0]["nodes"]
    rows = []
    for what in ("record", "backward", "total", "held", "peak"):
        scale, unit = (1.0, "bytes") if what in ("held", "peak") else (1e6, "us")
        row: dict[str, Any] = {"graph": shape, "per node": f"{what}, {unit}"}
        for paused, suffix in ((False, ""), (True, ", paused")):
            theirs, ours = (
                statistics.median(run[what] for run in runs[library, paused]) * scale / nodes
                for library in LIBRARIES
            )
            row |= {f"torch{suffix}": theirs, f"fl-autograd{suffix}": ours}
            row |= {f"x torch{suffix}": ours / theirs}
        rows.append(row)
    return rows


def main() -> None:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        library, collector, shape = given.one
        print(json.dumps(measure(library, collector == "paused", shape, given.nodes)))
        return
    rows = []
    for shape in SHAPES:
        runs: dict[tuple[str, bool], list[dict[str, float]]] = {side: [] for side in SIDES}
        for _ in range(given.rounds):
            for side in SIDES:
                runs[side].append(in_a_process(*side, shape, given.nodes))
        for name in ("x", "y"):
            theirs, ours = (runs[side][0][name] for side in SIDES[:2])
            if abs(ours - theirs) > 1e-3 * abs(theirs):
                raise SystemExit(f"{shape}: the gradients of {name} differ, {ours} and {theirs}")
        rows += rows_of(shape, runs)
    report(given, environment("numpy", *LIBRARIES), rows)


if __name__ == "__main__":
    main()
