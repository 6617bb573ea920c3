"""Training under a memory budget: blocks lie in a file, and the swapper keeps resident bytes low.

Claim: at a budget of 60 % of their peak, ResNet-50 and BERT train with the same losses bit for bit,
and at most 70 % of the peak is resident.

    python benchmarks/memory_swapping.py [--only resnet50 bert] [--backends numpy jit] [--share 0.6]
        [--policy oldest] [--steps 3] [--folder DIR] [--json FILE [--add]] [--markdown] [--tiny]

Each run is a process of its own. ``peak`` are the live bytes at the peak of a run in plain memory.
``resident`` are the resident bytes of the process above those before the model was built, at most;
they include code that was compiled meanwhile. Times are wall clock, from the second step on. Linux
alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _measure import environment, parsed, parser_of, report

import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from fl_memory.managers.caching import CachingManager
from fl_memory.swapping import FileMemory, Swapper
from models import MODELS
from models.training import Training, batch_of

BACKENDS = ("numpy", "jit")
NAMES = ("resnet50", "bert")


def train(name: str, budget: int | None, given: argparse.Namespace) -> dict[str, Any]:
    """Train for some steps in this process; ``budget``: within so many resident bytes."""
    model = MODELS[name]
    settings = model.small if given.tiny else {}
    swapper = None
    with ExitStack() as stack:
        if budget is None:
            manager = stack.enter_context(mem.use(CachingManager()))
        else:
            memory = FileMemory(given.folder)
            swapper = stack.enter_context(Swapper(memory, budget, policy=given.policy))
            manager = stack.enter_context(mem.use(CachingManager(memory)))
            swapper.watch(manager)
        weights = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "weights.safetensors"
        ft.seed(0)
        nn.save_weights(weights, model.build(**settings))
        batch = batch_of(model, settings, 2 if given.tiny else model.size)
        training = Training(model, settings, weights, batch)
        losses, seconds = [], []
        for _ in range(given.steps):
            start = time.perf_counter()
            losses.append(training.step())
            seconds.append(time.perf_counter() - start)
        found = {
            "losses": losses,
            "seconds": sum(seconds[1:]) / len(seconds[1:]),
            "peak": manager.stats().peak_live_bytes,
        }
        del training, batch
    if swapper is not None:
        found |= {"resident": swapper.peak_bytes, "evicted": swapper.evicted_bytes}
    return found


def in_process(
    name: str, backend: str, budget: int | None, given: argparse.Namespace
) -> dict[str, Any]:
    """``train`` in a fresh process."""
    command = [sys.executable, sys.argv[0], "--train", json.dumps([name, backend, budget])]
    command += ["--steps", str(given.steps), "--policy", given.policy, "--folder", given.folder]
    command += ["--tiny"] * given.tiny
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{name} on {backend} failed:\n{run.stderr}")
    return dict(json.loads(run.stdout.splitlines()[-1]))


def measure(name: str, backend: str, given: argparse.Namespace) -> dict[str, Any]:
    """The row of a model on a backend."""
    plain = in_process(name, backend, None, given)
    peak = plain["peak"]
    swapped = in_process(name, backend, int(given.share * peak), given)
    return {
        "model": name,
        "backend": backend,
        "peak, MB": peak / 1e6,
        "budget, MB": given.share * peak / 1e6,
        "resident / peak": swapped["resident"] / peak,
        "same losses": str(swapped["losses"] == plain["losses"]),
        "evicted, MB a step": swapped["evicted"] / given.steps / 1e6,
        "step, s": swapped["seconds"],
        "step / step in plain memory": swapped["seconds"] / plain["seconds"],
    }


def main() -> None:
    parser = parser_of(__doc__, rounds=None)
    parser.add_argument("--only", nargs="+", default=list(NAMES), choices=list(MODELS))
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), choices=BACKENDS)
    parser.add_argument("--share", type=float, default=0.6, help="the budget, as part of the peak")
    parser.add_argument("--policy", default="oldest", choices=("oldest", "newest"))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the file lies")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.train:
        name, backend, budget = json.loads(given.train)
        ft.use(backend)
        print(json.dumps(train(name, budget, given)))
        return
    if given.tiny:
        given.only = given.only[-1:]
    rows = []
    for name in given.only:
        for backend in given.backends:
            rows.append(measure(name, backend, given))
            print(rows[-1], file=sys.stderr)
    about = environment("numpy", "llvmlite", "fl-memory", "fl-tensor")
    about |= {"steps": given.steps, "policy": given.policy, "share": given.share}
    report(given, about, rows, key=("model", "backend"))


if __name__ == "__main__":
    main()
