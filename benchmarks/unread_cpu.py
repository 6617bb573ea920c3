"""Loops that read nothing before they end, each call of them from the first one on.

Claim: no call takes more than 1.5 times as long as the same call of a loop that calls `ft.eval` in
each round.

Each row has `--rounds` runs, each of new processes with empty caches of kernels: one for the loop
as it is, one that evaluates each round, and PyTorch where it is installed. They take turns, call by
call. `call 1` to `call 5` are medians of the time beside the loop that evaluates, `torch` is the
median time of calls 3 to 5 beside PyTorch's.

    python benchmarks/unread_loops.py [--only network sampler] [--threads 2] [--rounds 5]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from _measure import Worker, environment, parsed, parser_of, report, serve

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

CALLS = 5
#: Rounds of each loop.
LENGTHS = {"network": 200, "deep network": 200, "sampler": 100, "predictions": 200, "solver": 200}
SIZE, BATCH, IMAGES, PIXELS, CHANNELS = 64, 256, 8, 16, 32


def perceptron(lib: Any) -> Any:
    return lib.Sequential(lib.Linear(SIZE, 2 * SIZE), lib.Tanh(), lib.Linear(2 * SIZE, SIZE))


def deep(lib: Any) -> Any:
    layers = [(lib.Linear(SIZE, SIZE), lib.GELU(), lib.LayerNorm(SIZE)) for _ in range(6)]
    return lib.Sequential(*[layer for each in layers for layer in each])


def denoiser(lib: Any) -> Any:
    conv = getattr(lib, "Conv2D", None) or lib.Conv2d
    sizes = [(2, CHANNELS), *[(CHANNELS, CHANNELS)] * 4, (CHANNELS, 1)]
    layers = [(conv(a, b, 3, padding=1), lib.GELU()) for a, b in sizes]
    return lib.Sequential(*[layer for each in layers for layer in each][:-1])


class Loops:
    """The loops, of the functions and layers of a library; ``each`` is called with the result of
    every round."""

    def __init__(self, lib: Any, layers: Any, each: Callable[[Any], object], length: int) -> None:
        self.lib, self.layers, self.each, self.length = lib, layers, each, length

    def network(self) -> Callable[[], Any]:
        return self._descent(perceptron(self.layers))

    def deep_network(self) -> Callable[[], Any]:
        return self._descent(deep(self.layers))

    def _descent(self, model: Any) -> Callable[[], Any]:
        start = self.lib.randn((BATCH, SIZE))

        def run() -> Any:
            x = start
            for _ in range(self.length):
                x = x - 0.01 * model(x)
                self.each(x)
            return x

        return run

    def sampler(self) -> Callable[[], Any]:
        shape = IMAGES, 1, PIXELS, PIXELS
        model = denoiser(self.layers)

        def run() -> Any:
            x = self.lib.randn(shape)
            for i in range(self.length):
                time = self.lib.full(shape, i / self.length)
                noise = model(self.lib.concatenate([x, time], 1))
                x = (x - 0.1 * noise) * 1.01 + 0.05 * self.lib.randn(shape)
                self.each(x)
            return x

        return run

    def predictions(self) -> Callable[[], Any]:
        model = deep(self.layers)
        batches = [self.lib.randn((BATCH, SIZE)) for _ in range(self.length)]

        def run() -> Any:
            found = []
            for x in batches:
                found.append(model(x))
                self.each(found[-1])
            return self.lib.concatenate(found, 0)

        return run

    def solver(self) -> Callable[[], Any]:
        start, step = self.lib.randn((BATCH, SIZE)), 0.01

        def slope(x: Any) -> Any:
            return self.lib.sin(3.0 * x) - 0.1 * x

        def run() -> Any:
            x = start
            for _ in range(self.length):
                a = slope(x)
                b = slope(x + 0.5 * step * a)
                c = slope(x + 0.5 * step * b)
                x = x + step / 6 * (a + 2.0 * (b + c) + slope(x + step * c))
                self.each(x)
            return x

        return run


def our_run(case: str, length: int, evaluated: bool) -> Callable[[], object]:
    ft.seed(0)
    run = getattr(Loops(ft, nn, ft.eval if evaluated else _ignore, length), case)()

    def timed() -> None:
        with ag.no_grad():
            ft.eval(run())

    return timed


def their_run(case: str, length: int) -> Callable[[], object]:
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    run = getattr(Loops(torch, torch.nn, _ignore, length), case)()
    return torch.no_grad()(run)


def _ignore(x: Any) -> None:
    pass


def row_of(case: str, given: argparse.Namespace) -> dict[str, Any]:
    libraries = ["unread", "evaluated"]
    if not given.tiny and find_spec("torch") is not None:
        libraries.append("torch")
    beside: list[list[float]] = []
    torch: list[float] = []
    for _ in range(given.rounds):
        with ExitStack() as stack:
            workers = {}
            for name in libraries:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fl-loops-"))
                arguments = "--case", case
                worker = Worker(
                    name, given.threads, tiny=given.tiny, arguments=arguments, FL_CACHE_DIR=folder
                )
                workers[name] = stack.enter_context(worker)
            times = [{name: w.timed("run", 1) for name, w in workers.items()} for _ in range(CALLS)]
        print(case, [{k: round(v, 3) for k, v in t.items()} for t in times])
        beside.append([each["unread"] / each["evaluated"] for each in times])
        torch += [each["torch"] / each["unread"] for each in times[2:] if "torch" in each]
    medians = [statistics.median(ratios) for ratios in zip(*beside, strict=True)]
    row: dict[str, Any] = {"loop": case}
    row |= {f"call {i}": ratio for i, ratio in enumerate(medians, 1)}
    row["worst"] = max(medians)
    if torch:
        row["torch / ours"] = statistics.median(torch)
    return row


def main() -> None:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("--only", nargs="+", default=list(LENGTHS), choices=LENGTHS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        case, length = given.case.replace(" ", "_"), 4 if given.tiny else LENGTHS[given.case]
        if given.serve == "torch":
            serve({"run": their_run(case, length)}, __import__("time").process_time)
        else:
            serve(
                {"run": our_run(case, length, given.serve == "evaluated")},
                __import__("time").process_time,
            )
        return
    cases = given.only[:1] if given.tiny else given.only
    rows = [row_of(case, given) for case in cases]
    report(given, environment("llvmlite", "fl-tensor", "torch"), rows)


if __name__ == "__main__":
    main()
