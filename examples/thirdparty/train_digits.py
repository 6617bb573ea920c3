"""One epoch of a small digits network on outside parts, against the same on the reference parts.

The script names a backend and a memory manager; nothing else in it knows that they come from
outside packages. The losses of the first steps must agree, and so must the epoch's mean.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import fl_autograd as ag
import fl_memory
import fl_nn as nn
import fl_tensor as ft
from fl_data import Batch, Shuffle
from fl_vision.datasets import load_dataset

FIRST_STEPS, STEP_TOLERANCE, MEAN_TOLERANCE = 10, 1e-4, 1e-2


@dataclass
class Run:
    losses: list[float]
    allocs: int
    seconds: float

    @property
    def mean(self) -> float:
        return sum(self.losses) / len(self.losses)


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2D(1, 4, 3, padding="same"),
        nn.ReLU(),
        nn.Pool2D(2, 2),
        nn.Conv2D(4, 8, 3, padding="same"),
        nn.ReLU(),
        nn.Pool2D(2, 2),
        nn.View((-1, 32)),
        nn.Linear(32, 10),
    )


def train(backend: str, memory: str, seed: int) -> Run:
    start = time.perf_counter()
    with ft.use(backend), fl_memory.use(memory):
        ft.seed(seed)
        data = load_dataset("digits")
        model = network()
        optimizer = nn.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for images, labels in Batch(Shuffle(data.train, seed), 16):
            inputs = ag.Variable(images.astype(ft.float32) / data.peak)
            loss = nn.cross_entropy(model(inputs), labels)
            if loss.tensor.backend.name != backend:
                raise SystemExit(f"the loss was computed on {loss.tensor.backend.name}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        allocs = fl_memory.current().stats().allocs
    return Run(losses, allocs, time.perf_counter() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="acme")
    parser.add_argument("--memory", default="arena")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outside = train(options.backend, options.memory, options.seed)
    alone = options.backend == "numpy" or "fl_tensor.backends.numpy" not in sys.modules
    reference = train("numpy", "system", options.seed)
    pairs = list(zip(outside.losses, reference.losses, strict=True))
    for step, (ours, theirs) in enumerate(pairs[:FIRST_STEPS]):
        print(f"step {step}: {options.backend} {ours:.6f}, numpy {theirs:.6f}")
    step_gap = max(abs(a - b) for a, b in pairs[:FIRST_STEPS])
    mean_gap = abs(outside.mean - reference.mean)
    print(f"{len(pairs)} steps: {outside.seconds:.1f} s, on numpy {reference.seconds:.1f} s")
    print(f"{options.memory} served {outside.allocs} requests")
    print(f"first {FIRST_STEPS} steps at most {step_gap:.1e} apart (<= {STEP_TOLERANCE})")
    print(f"epoch means {outside.mean:.4f} and {reference.mean:.4f} (<= {MEAN_TOLERANCE} apart)")
    verdicts = {
        "equal in the first steps": step_gap <= STEP_TOLERANCE,
        "equal over the epoch": mean_gap <= MEAN_TOLERANCE,
        "it learned": sum(outside.losses[-10:]) < 0.7 * sum(outside.losses[:10]),
        f"{options.memory} was asked for memory": outside.allocs > 0,
        f"{options.backend} needed no other backend": alone,
    }
    for promise, kept in verdicts.items():
        print(f"{promise}: {'yes' if kept else 'NO'}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
