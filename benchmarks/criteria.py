"""How fast the loss and the gradient of speech criteria are, beside PyTorch in float32.

Claims (one thread): CTC at least 2.5x as fast as PyTorch's, and not slower where the emissions are
so confident that scaled probabilities do not do (`x30`). The errors are those to PyTorch in
float64: of the loss, relative, and the largest of the gradient.

Emissions are random, softmax included. Times are those of the processor for one thread, and the
libraries take turns.

    python benchmarks/criteria.py [--only ctc-B8 ...] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _measure import environment, parsed, parser_of, report, timed

import fl_autograd as ag
import fl_tensor as ft
from fl_speech.criteria import ctc_loss

#: The loss of a batch, and its gradient to the emissions.
Step = Callable[[], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Case:
    samples: int
    frames: int
    classes: int
    labels: int
    factor: int = 1  # of the emissions

    @property
    def name(self) -> str:
        sizes = f"ctc-B{self.samples}-T{self.frames}-N{self.classes}-L{self.labels}"
        return sizes if self.factor == 1 else f"{sizes}-x{self.factor}"

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Emissions float32 and targets int64."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(self.samples, self.frames, self.classes)) * self.factor
        targets = rng.integers(0, self.classes - 1, (self.samples, self.labels))
        return x.astype(np.float32), targets


CASES = [
    Case(32, 200, 30, 20),
    Case(8, 200, 30, 20),
    Case(8, 500, 1000, 60),
    Case(8, 1500, 30, 300),
    Case(8, 1500, 30, 300, 30),
]
TINY = [Case(2, 10, 5, 3), Case(2, 10, 5, 3, 300)]


def ours(x: np.ndarray, targets: np.ndarray) -> Step:
    emissions = ag.Variable(ft.asarray(x), requires_grad=True)
    labels = ft.asarray(targets)

    def step() -> tuple[float, np.ndarray]:
        loss = ctc_loss(emissions, labels, reduction="sum")
        grad = ag.grad(loss, emissions)
        return loss.item(), grad.numpy()

    return step


def theirs(x: np.ndarray, targets: np.ndarray) -> Step:
    import torch

    torch.set_num_threads(1)
    samples, frames, classes = x.shape
    emissions = torch.tensor(x, requires_grad=True)
    labels = torch.tensor(targets)
    lengths = torch.full((samples,), frames), torch.full((samples,), targets.shape[1])

    def step() -> tuple[float, np.ndarray]:
        emissions.grad = None
        loss = torch.nn.functional.ctc_loss(
            emissions.log_softmax(2).transpose(0, 1), labels, *lengths,
            blank=classes - 1, reduction="sum",
        )  # fmt: skip
        loss.backward()
        return loss.item(), emissions.grad.numpy()

    return step


def row_of(case: Case, given: argparse.Namespace) -> dict[str, Any]:
    x, targets = case.draw()
    runs = {"ours": ours(x, targets)}
    if not given.tiny:
        runs["torch"] = theirs(x, targets)
    times = fastest(runs, given.rounds)
    row: dict[str, Any] = {"case": case.name, "ours ms": times["ours"] * 1e3}
    if not given.tiny:
        row["torch ms"] = times["torch"] * 1e3
        row["torch / ours"] = times["torch"] / times["ours"]
        exact = theirs(x.astype(np.float64), targets)()
        for name, run in runs.items():
            loss, grad = run()
            row[f"error of loss, {name}"] = f"{abs(loss / exact[0] - 1):.0e}"
            row[f"of gradient, {name}"] = f"{abs(grad - exact[1]).max():.0e}"
    return row


def fastest(runs: dict[str, Step], rounds: int) -> dict[str, float]:
    """Seconds of this thread of each run, in turn: the least of the rounds, after one more."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            times[name].append(timed(run, 1, time.thread_time))
    return {name: min(found[1:]) for name, found in times.items()}


def main() -> None:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="of names of cases")
    given = parsed(parser)
    ft.set_num_threads(1)
    rows = []
    for case in TINY if given.tiny else CASES:
        if not given.only or any(part in case.name for part in given.only):
            rows.append(row_of(case, given))
            print(rows[-1], file=sys.stderr, flush=True)
    report(given, environment("torch", "llvmlite", "numpy", "fl-speech"), rows)


if __name__ == "__main__":
    main()
