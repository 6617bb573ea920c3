"""How fast ASG computes losses and gradients, beside loops over frames in PyTorch with autograd.

Claims: kernels take at most a fifth of the time of PyTorch in float64, and at most a third where
wide emissions need logarithms (`x300`). Gradients are those of PyTorch in float64 to 1e-9.

Emissions, targets and transitions are random, with a fixed seed. A row is the loss of a batch and
its gradients to emissions and transitions, by one thread. Times are those of the processor, and the
sides take turns. PyTorch computes a batch at once, with one step for each frame. "composed" is our
loop of tensor operations. `error` is the largest difference of a gradient from PyTorch in float64,
for the kernels with float64 emissions and for PyTorch in float32.

    python benchmarks/asg.py [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _measure import environment, interleave, parsed, parser_of, report
from _peers import require

import fl_autograd as ag
import fl_tensor as ft
from fl_speech.criteria import asg_loss


class Case(NamedTuple):
    samples: int
    frames: int
    classes: int
    labels: int
    width: float = 1.0  # of the emissions; wide ones go through logarithms

    @property
    def name(self) -> str:
        wide = "" if self.width == 1.0 else f"-x{self.width:.0f}"
        return f"B{self.samples}-T{self.frames}-N{self.classes}-L{self.labels}{wide}"


CASES = [
    Case(8, 200, 30, 20),
    Case(32, 200, 30, 20),
    Case(1, 500, 30, 40),
    Case(1, 200, 200, 20),
    Case(8, 200, 30, 20, 300.0),
]
TINY = [Case(2, 5, 3, 2), Case(1, 4, 3, 2, 300.0)]


def problem(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Emissions, transitions and targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(case.samples, case.frames, case.classes)) * case.width
    targets = rng.integers(0, case.classes, (case.samples, case.labels))
    return x, rng.normal(size=(case.classes, case.classes)) * 0.5, targets


def ours(case: Case, dtype: Any, composed: bool) -> Callable[[], list[np.ndarray]]:
    *arrays, targets = problem(case)
    x, transitions = (ag.Variable(ft.asarray(a, dtype), requires_grad=True) for a in arrays)

    def run() -> list[np.ndarray]:
        x.grad = transitions.grad = None
        asg_loss(x, targets, transitions, composed=composed).backward()
        return [x.grad.numpy(), transitions.grad.numpy()]

    return run


def theirs(case: Case, name: str) -> Callable[[], list[np.ndarray]]:
    import torch

    torch.set_num_threads(1)
    *arrays, labels = problem(case)
    dtype = getattr(torch, name)
    x, transitions = (torch.tensor(a, dtype=dtype, requires_grad=True) for a in arrays)
    targets = torch.tensor(labels)

    def loss() -> Any:
        every = x[:, 0]
        picked = x.gather(2, targets[:, None].expand(-1, case.frames, -1))
        stay = transitions[targets, targets]
        move = transitions[targets[:, 1:], targets[:, :-1]]
        low = torch.full((case.samples, 1), -1e30, dtype=dtype)
        one = torch.cat([picked[:, 0, :1], low.expand(-1, case.labels - 1)], 1)
        for t in range(1, case.frames):
            every = x[:, t] + torch.logsumexp(every[:, None] + transitions, 2)
            moved = torch.cat([low, one[:, :-1] + move], 1)
            one = picked[:, t] + torch.logaddexp(one + stay, moved)
        return (torch.logsumexp(every, 1) - one[:, -1]).mean()

    def run() -> list[np.ndarray]:
        x.grad = transitions.grad = None
        loss().backward()
        return [x.grad.numpy(), transitions.grad.numpy()]

    return run


def largest(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(found, wanted, strict=True))


def row_of(case: Case, rounds: int, moment: float, tiny: bool) -> dict[str, Any]:
    sides: dict[str, Callable[[], list[np.ndarray]]] = {
        "kernels": ours(case, ft.float32, False),
        "composed": ours(case, ft.float32, True),
    }
    if not tiny:
        sides |= {name: theirs(case, name) for name in ("float32", "float64")}
    for run in sides.values():
        run()
    times = interleave(sides, rounds, moment, clock=time.process_time)
    row: dict[str, Any] = {
        "case": case.name,
        "kernels ms": 1e3 * times["kernels"],
        "composed ms": 1e3 * times["composed"],
    }
    if tiny:
        return row
    exact = sides["float64"]()
    row |= {f"torch {name} ms": 1e3 * times[name] for name in ("float32", "float64")}
    row["torch float32 / kernels"] = times["float32"] / times["kernels"]
    row["torch float64 / kernels"] = times["float64"] / times["kernels"]
    row["error"] = f"{largest(ours(case, ft.float64, False)(), exact):.0e}"
    row["error of torch float32"] = f"{largest(sides['float32'](), exact):.0e}"
    return row


def main() -> None:
    given = parsed(parser_of(__doc__, rounds=3))
    if not given.tiny:
        require(["torch"], "pip install torch, or --tiny")
    ft.set_num_threads(1)
    cases = TINY if given.tiny else CASES
    rows = []
    for case in cases:
        rows.append(row_of(case, given.rounds, given.moment, given.tiny))
        print(rows[-1], file=sys.stderr, flush=True)
    report(given, environment("torch", "numpy", "llvmlite", "fl-speech"), rows)


if __name__ == "__main__":
    main()
