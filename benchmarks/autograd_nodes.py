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
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from _measure import environment, most_resident, parsed, parser_of, report, resident

LIBRARIES = ("fl-autograd", "torch")
#: What runs in a process of its own: a library, and whether Python's collector is paused.
Side = tuple[str, bool]
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
    peak = most_resident()
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


def in_a_process(library: str, paused: bool, shape: str, nodes: int) -> dict[str, float]:
    one = [library, "paused" if paused else "on", shape]
    command = [sys.executable, __file__, "--one", *one, "--nodes", str(nodes)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def rows_of(shape: str, nodes: int, runs: dict[Side, list[dict[str, float]]]) -> list[Any]:
    """A row per quantity: the medians, and ours divided by PyTorch's, with the collector on and
    paused."""
    rows = []
    for what in ("record", "backward", "total", "held", "peak"):
        scale, unit = (1.0, "bytes") if what in ("held", "peak") else (1e6, "us")
        row: dict[str, Any] = {"per node": f"{shape}: {what}, {unit}"}
        for paused, suffix in ((False, ""), (True, ", paused")):
            middle = {
                library: statistics.median(run[what] for run in found) * scale / nodes
                for (library, state), found in runs.items()
                if state is paused
            }
            row |= {f"{library}{suffix}": value for library, value in middle.items()}
            if "torch" in middle:
                row[f"ours / torch{suffix}"] = middle["fl-autograd"] / middle["torch"]
        rows.append(row)
    return rows


def main() -> None:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.one:
        library, collector, shape = given.one
        print(json.dumps(measure(library, collector == "paused", shape, given.nodes)))
        return
    libraries = LIBRARIES[:1] if given.tiny else LIBRARIES
    nodes = 1000 if given.tiny else given.nodes
    rows = []
    for shape in SHAPES:
        runs: dict[Side, list[dict[str, float]]] = {
            (library, paused): [] for paused in (False, True) for library in libraries
        }
        for _ in range(given.rounds):
            for side, found in runs.items():
                found.append(in_a_process(*side, shape, nodes))
        for name in ("x", "y"):
            slopes = [found[0][name] for found in runs.values()]
            if max(slopes) - min(slopes) > 1e-3 * abs(slopes[0]):
                raise SystemExit(f"{shape}: the gradients of {name} differ, {slopes}")
        rows += rows_of(shape, nodes, runs)
    about = environment("numpy", *LIBRARIES)
    report(given, {**about, "nodes": nodes, "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
