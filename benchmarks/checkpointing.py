"""What `fl_autograd.checkpoint` saves and costs: a Transformer of 12 layers, each of them
checkpointed, forward and backward.

Claim: the most bytes of activations that are alive at a time (fl-memory's statistics, parameters
and gradients apart) fall by at least half, and all gradients stay the same bit for bit.

    python benchmarks/checkpointing.py [--size 128] [--steps 64] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from typing import Any

from _measure import environment, interleave, parsed, parser_of, report

import fl_autograd as ag
import fl_memory
import fl_nn as nn
import fl_tensor as ft

LAYERS = 12
PRODUCTS = ("linear", "matmul")
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda layer, x: layer(x),
    "each layer, products kept": lambda layer, x: ag.checkpoint(layer, x, policy=PRODUCTS),
    "each layer": lambda layer, x: ag.checkpoint(layer, x),
}


class Training:
    """Forward and backward of one model, which has its gradients before the measured step."""

    def __init__(self, given: argparse.Namespace, call: Callable[[Any, Any], Any]) -> None:
        ft.seed(1)
        size = given.size
        self.call = call
        self.manager = type(fl_memory.get("caching"))(small_bytes=0)
        with fl_memory.use(self.manager):
            self.x = ft.randn((given.batch, given.steps, size))
            self.layers = [
                nn.TransformerEncoderLayer(size, size // 32, 4 * size) for _ in range(LAYERS)
            ]

    def step(self) -> None:
        with fl_memory.use(self.manager):
            h: Any = self.x
            for layer in self.layers:
                h = self.call(layer, h)
            loss = ft.mean(ft.square(h))
            del h
            loss.backward()

    def activations(self) -> int:
        """Most bytes alive in a step above those of parameters, gradients and the input."""
        self.step()
        gc.collect()
        before = self.manager.stats().live_bytes
        gc.disable()
        self.step()
        gc.enable()
        return self.manager.stats().peak_live_bytes - before

    def gradients(self) -> list[bytes]:
        return [bytes(p.grad.tobytes()) for layer in self.layers for p in layer.parameters()]


def main() -> None:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    given = parsed(parser)
    if given.tiny:
        given.size, given.steps, given.batch = 32, 4, 2
    runs = {name: Training(given, call) for name, call in CALLS.items()}
    peaks = {name: run.activations() for name, run in runs.items()}
    gradients = [run.gradients() for run in runs.values()]
    if any(other != gradients[0] for other in gradients):
        raise SystemExit("the gradients differ")
    times = interleave({name: run.step for name, run in runs.items()}, given.rounds, given.moment)
    rows = [
        {
            "checkpointed": name,
            "activations, bytes": peaks[name],
            "x without": peaks[name] / peaks["none"],
            "s per step": times[name],
            "x time": times[name] / times["none"],
        }
        for name in CALLS
    ]
    report(given, environment("numpy", "fl-autograd", "fl-nn"), rows)


if __name__ == "__main__":
    main()
