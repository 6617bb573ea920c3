"""A differentiable beam search whose plain graph has 1,000,000 nodes, on three graphs of
``examples/differentiable_beam_search`` and on PyTorch's tape.

The search is the same code. "plain" records a node for each addition and each log-addition of two
numbers, as PyTorch does ("torch"). "fused" records a node for each hypothesis. "numbers" is a tape
of Python objects below one node. Losses and gradients must agree.

Claim: "numbers" takes at most a quarter of the time of PyTorch, and every graph at most 0.6 of its
memory.

"all" keeps all hypotheses of a small lexicon: every node is part of the loss. "beam" keeps 50
hypotheses a frame of 200 words: most nodes are freed during the search.

Times are of the processor, in a process of its own for each, with one thread and without Python's
search for reference cycles (``ag.large_graph()``, ``gc.disable()``). Memory is what the process
grows by at most.

    python benchmarks/differentiable_beam_search.py [--rounds 3] [--only CASE] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import environment, most_resident, parsed, parser_of, report, resident

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "differentiable_beam_search"
sys.path.insert(0, str(EXAMPLE))

import graphs  # noqa: E402 - found on the path above
import numbers_tape  # noqa: E402
import search  # noqa: E402

SIDES = ("torch", "plain", "fused", "numbers")
#: Of each case: words, tokens, frames, and hypotheses in the beam.
CASES = {"all": (20, 10, 108, 10**9), "beam": (200, 26, 1110, 50)}
TINY = {"all": (5, 4, 6, 10**9), "beam": (5, 4, 12, 5)}


class TorchGraph(graphs.Plain):
    """The plain graph on PyTorch's tape."""

    def cells(self, table: Any) -> Callable[[int, int], Any]:
        rows = [row.unbind() for row in table.unbind()]
        return lambda i, j: rows[i][j]

    def merge(self, paths: graphs.Paths, emission: Any) -> Any:
        import torch

        total = None
        for score, arc in paths:
            one = score + arc
            total = one if total is None else torch.logaddexp(total, one)
        return total if emission is None else total + emission


class Counting(numbers_tape.Numbers):
    """Counts the additions and log-additions of the plain graph."""

    nodes = 0

    def merge(self, paths: Any, emission: Any) -> Any:
        self.nodes += 2 * len(paths) - (emission is None)
        return super().merge(paths, emission)


def graph_of(side: str) -> Any:
    kinds = {"torch": TorchGraph, "plain": graphs.Plain, "fused": graphs.Fused}
    return {**kinds, "numbers": numbers_tape.Numbers, "count": Counting}[side]()


def variable_of(side: str) -> Callable[[Any], Any]:
    """What makes a leaf in float32 of a number or of nested lists."""
    if side == "torch":
        import torch

        torch.set_num_threads(1)
        return lambda values: torch.tensor(values, requires_grad=True)
    import fl_autograd as ag

    return lambda values: ag.Variable(values, requires_grad=True)


def problem(
    side: str, words: int, tokens: int, frames: int
) -> tuple[search.Trie, search.Scores, list[int]]:
    """A lexicon, scores and a target; the same on every side."""
    draw = random.Random(0)
    spellings = [
        [draw.randrange(tokens) for _ in range(draw.randint(1, 4) + (words > 100))]
        for _ in range(words)
    ]

    def table(rows: int, columns: int) -> Any:
        return make([[draw.gauss(0.0, 1.0) for _ in range(columns)] for _ in range(rows)])

    make = variable_of(side)
    tables = [table(frames, tokens), table(tokens, tokens), table(words + 1, words)]
    return search.Trie(spellings), search.Scores(*tables, make(0.5), make(-0.5)), [1, 3]


def measure(side: str, case: str, tiny: bool) -> dict[str, Any]:
    """Seconds, bytes, loss and the norm of each gradient, in this process."""
    words, tokens, frames, beam = (TINY if tiny else CASES)[case]
    trie, scores, target = problem(side, words, tokens, frames)
    graph = graph_of(side)
    _, small, _ = problem(side, words, tokens, 8)
    search.search(graph_of(side), trie, small, beam=3, target=target).loss.backward()
    gc.collect()
    gc.disable()  # what ag.large_graph() does
    before, start = resident(), time.process_time()
    found = search.search(graph, trie, scores, beam=beam, target=target)
    searched = time.process_time()
    loss = found.loss
    loss.backward()
    done = time.process_time()
    return {
        "search, s": searched - start,
        "backward, s": done - searched,
        "total, s": done - start,
        "memory, MB": (most_resident() - before) / 1e6,
        "loss": float(loss.item()),
        "gradients": [norm(x.grad.tolist()) for x in scores],
        "nodes": getattr(graph, "nodes", 0),
    }


def norm(values: Any) -> float:
    """The 2-norm of a number or of nested lists."""
    return math.hypot(*map(norm, values)) if isinstance(values, list) else abs(values)


def in_a_process(side: str, case: str, tiny: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", side, case, *(["--tiny"] if tiny else [])]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def check_agreement(case: str, runs: dict[str, list[dict[str, Any]]]) -> None:
    """SystemExit where losses or gradients of the sides differ by more than rounding."""
    firsts = [found[0] for found in runs.values()]
    for one in firsts:
        pairs = zip(
            [one["loss"], *one["gradients"]], [firsts[-1]["loss"], *firsts[-1]["gradients"]]
        )
        if any(abs(a - b) > 2e-3 * max(abs(b), 1.0) for a, b in pairs):
            raise SystemExit(f"{case}: losses or gradients differ, {firsts}")


def main() -> None:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--only", choices=tuple(CASES))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.one:
        print(json.dumps(measure(*given.one, given.tiny)))
        return
    sides = SIDES[1:] if given.tiny else SIDES
    rows = []
    for case in CASES if given.only is None else (given.only,):
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for _ in range(given.rounds):
            for side, found in runs.items():
                found.append(in_a_process(side, case, given.tiny))
        check_agreement(case, runs)
        nodes = in_a_process("count", case, given.tiny)["nodes"]
        for what in ("search, s", "backward, s", "total, s", "memory, MB"):
            row: dict[str, Any] = {"case": f"{case}, {nodes:,} nodes: {what}"}
            row |= {side: statistics.median(r[what] for r in found) for side, found in runs.items()}
            if "torch" in row:
                row |= {f"{side} / torch": row[side] / row["torch"] for side in sides[1:]}
            rows.append(row)
    report(given, environment("numpy", "fl-autograd", "torch"), rows)


if __name__ == "__main__":
    main()
