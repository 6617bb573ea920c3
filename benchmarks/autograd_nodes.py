"""What a node of the graph costs: a chain and a tree of 1,000,000 operations on single numbers,
recorded and differentiated, against PyTorch.

Claim: at most 0.6 times PyTorch's time (recording and backward together) and 0.6 times its memory
(the most that the process grows by), inside ``large_graph``; "plain" is without that block, where
Python's search for reference cycles takes more than half of the time of recording.

Each library runs in processes of its own, so that peaks are its own; the two take turns, and the
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
from pathlib import Path
from typing import Any

from _measure import environment, report

LIBRARIES = ("torch", "fl-autograd")
#: What runs in processes of its own: PyTorch, and we with and without ``large_graph``.
SIDES = ("torch", "fl-autograd", "plain")
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


def measure(side: str, shape: str, nodes: int) -> dict[str, float]:
    """Seconds and bytes of one graph, in this process."""
    if side != "fl-autograd":
        return _measure("torch" if side == "torch" else "fl-autograd", shape, nodes)
    import fl_autograd as ag

    with ag.large_graph():
        return _measure(side, shape, nodes)


def _measure(library: str, shape: str, nodes: int) -> dict[str, float]:
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
        "record": built - start,
        "backward": done - built,
        "total": done - start,
        "held": held - before,
        "peak": peak - before,
        "x": slopes[0],
        "y": slopes[1],
    }


def in_a_process(side: str, shape: str, nodes: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", side, shape, "--nodes", str(nodes)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "SHAPE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        side, shape = given.one
        print(json.dumps(measure(side, shape, given.nodes)))
        return
    rows = []
    for shape in SHAPES:
        runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for _ in range(given.rounds):
            for side in SIDES:
                runs[side].append(in_a_process(side, shape, given.nodes))
        theirs, ours, plain = (runs[side] for side in SIDES)
        for name in ("x", "y"):
            a, b = ours[0][name], theirs[0][name]
            if abs(a - b) > 1e-3 * abs(b):
                raise SystemExit(f"{shape}: the gradients of {name} differ, {a} and {b}")
        for what in ("record", "backward", "total", "held", "peak"):
            a, b, c = (
                statistics.median(run[what] for run in side) for side in (ours, theirs, plain)
            )
            unit = "us" if what in ("record", "backward", "total") else "bytes"
            scale = (1e6 if unit == "us" else 1.0) / given.nodes
            rows.append(
                {
                    "graph": shape,
                    "per node": f"{what}, {unit}",
                    **dict(zip(LIBRARIES, (b * scale, a * scale), strict=True)),
                    "x torch": a / b,
                    "plain": c * scale,
                    "plain, x torch": c / b,
                }
            )
    report(given, environment("numpy", *LIBRARIES), rows)


if __name__ == "__main__":
    main()
