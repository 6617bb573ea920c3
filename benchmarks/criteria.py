"""How fast losses of speech and their gradients are, beside PyTorch on one thread.

Claims: CTC is at least 2.5x as fast as PyTorch's in float32, and not slower where emissions are so
confident that scaled probabilities do not do (`x30`). ASG takes at most a fifth of the time of
PyTorch in float64, and at most a third where wide emissions need logarithms (`x300`). Gradients
are those of PyTorch in float64 to 1e-9.

Emissions, targets and transitions are random, with a fixed seed. A row is the loss of a batch and
its gradients. Times are those of the processor, and the sides take turns. "composed" is our loop
of tensor operations, up to 200 frames. PyTorch has a function for CTC; ASG is a loop over frames,
a batch at once. `error` is the largest difference of a gradient from PyTorch in float64, for
kernels with float64 emissions and for PyTorch in float32.

    python benchmarks/criteria.py [--only asg ctc-B8 ...] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _measure import environment, interleave, parsed, parser_of, report
from _peers import require

import fl_autograd as ag
import fl_tensor as ft
from fl_speech.criteria import asg_loss, ctc_loss

#: Gradients to the emissions, and of ASG to the transitions.
Step = Callable[[], list[np.ndarray]]


class Case(NamedTuple):
    kind: str
    samples: int
    frames: int
    classes: int
    labels: int
    factor: int = 1  # of the emissions

    @property
    def name(self) -> str:
        sizes = f"{self.kind}-B{self.samples}-T{self.frames}-N{self.classes}-L{self.labels}"
        return sizes if self.factor == 1 else f"{sizes}-x{self.factor}"

    def draw(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Emissions, with transitions for ASG; and targets."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(self.samples, self.frames, self.classes)) * self.factor
        labels = self.classes - (self.kind == "ctc")  # without the blank
        targets = rng.integers(0, labels, (self.samples, self.labels))
        if self.kind == "ctc":
            return [x], targets
        return [x, rng.normal(size=(self.classes, self.classes)) * 0.5], targets


CASES = [
    Case("ctc", 32, 200, 30, 20),
    Case("ctc", 8, 200, 30, 20),
    Case("ctc", 8, 500, 1000, 60),
    Case("ctc", 8, 1500, 30, 300),
    Case("ctc", 8, 1500, 30, 300, 30),
    Case("asg", 8, 200, 30, 20),
    Case("asg", 32, 200, 30, 20),
    Case("asg", 1, 500, 30, 40),
    Case("asg", 1, 200, 200, 20),
    Case("asg", 8, 200, 30, 20, 300),
]
TINY = [Case(kind, 2, 10, 5, 3, factor) for kind in ("ctc", "asg") for factor in (1, 300)]


def ours(case: Case, dtype: ft.DType, composed: bool) -> Step:
    arrays, targets = case.draw()
    operands = [ag.Variable(ft.asarray(a, dtype), requires_grad=True) for a in arrays]
    labels = ft.asarray(targets)

    def step() -> list[np.ndarray]:
        x, *transitions = operands
        if case.kind == "ctc":
            loss = ctc_loss(x, labels, composed=composed)
        else:
            loss = asg_loss(x, labels, *transitions, composed=composed)
        return [grad.numpy() for grad in ag.grad(loss, operands)]

    return step


def theirs(case: Case, dtype: str) -> Step:
    import torch

    torch.set_num_threads(1)
    arrays, targets = case.draw()
    operands = [torch.tensor(a, dtype=getattr(torch, dtype), requires_grad=True) for a in arrays]
    labels = torch.tensor(targets)
    loss_of = torch_ctc if case.kind == "ctc" else torch_asg

    def step() -> list[np.ndarray]:
        return [grad.numpy() for grad in torch.autograd.grad(loss_of(labels, *operands), operands)]

    return step


def torch_ctc(targets: Any, x: Any) -> Any:
    import torch

    samples, frames, classes = x.shape
    lengths = torch.full((samples,), frames), torch.full((samples,), targets.shape[1])
    scores = x.log_softmax(2).transpose(0, 1)
    losses = torch.nn.functional.ctc_loss(
        scores, targets, *lengths, blank=classes - 1, reduction="none"
    )
    return losses.mean()


def torch_asg(targets: Any, x: Any, transitions: Any) -> Any:
    import torch

    samples, frames, _ = x.shape
    every = x[:, 0]
    picked = x.gather(2, targets[:, None].expand(-1, frames, -1))
    stay = transitions[targets, targets]
    move = transitions[targets[:, 1:], targets[:, :-1]]
    low = torch.full((samples, 1), -1e30, dtype=x.dtype)
    one = torch.cat([picked[:, 0, :1], low.expand(-1, targets.shape[1] - 1)], 1)
    for t in range(1, frames):
        every = x[:, t] + torch.logsumexp(every[:, None] + transitions, 2)
        moved = torch.cat([low, one[:, :-1] + move], 1)
        one = picked[:, t] + torch.logaddexp(one + stay, moved)
    return (torch.logsumexp(every, 1) - one[:, -1]).mean()


def largest(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(found, wanted, strict=True))


def row_of(case: Case, given: argparse.Namespace) -> dict[str, Any]:
    sides = {"kernels": ours(case, ft.float32, False)}
    if case.frames <= 200:
        sides["composed"] = ours(case, ft.float32, True)
    if not given.tiny:
        sides |= {f"torch {dtype}": theirs(case, dtype) for dtype in ("float32", "float64")}
    times = interleave(sides, given.rounds, given.moment, clock=time.process_time)
    row: dict[str, Any] = {"case": case.name}
    row |= {f"{name} ms": 1e3 * seconds for name, seconds in times.items()}
    if given.tiny:
        return row
    for dtype in ("float32", "float64"):
        row[f"torch {dtype} / kernels"] = times[f"torch {dtype}"] / times["kernels"]
    exact = sides["torch float64"]()
    row["error"] = f"{largest(ours(case, ft.float64, False)(), exact):.0e}"
    row["error of torch float32"] = f"{largest(sides['torch float32'](), exact):.0e}"
    return row


def main() -> None:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="of names of cases")
    given = parsed(parser)
    if not given.tiny:
        require(["torch"], "pip install torch, or --tiny")
    ft.set_num_threads(1)
    rows = []
    for case in TINY if given.tiny else CASES:
        if not given.only or any(part in case.name for part in given.only):
            rows.append(row_of(case, given))
            print(rows[-1], file=sys.stderr, flush=True)
    report(given, environment("torch", "llvmlite", "numpy", "fl-speech"), rows)


if __name__ == "__main__":
    main()
