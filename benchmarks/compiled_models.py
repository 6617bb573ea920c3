"""Training steps of the six models of the paper by `nn.compile`, beside eager steps, which `jit`
defers.

Claim: on `jit` a compiled step takes at most as long as an eager one, and no more memory.

Forward, backward, SGD with momentum; the batch is in memory, and a step ends with the number of its
loss. Each way runs in a process of its own with the same weights, and they take turns. A time is
the median of single steps. Memory is the most that a process had, less what it had with its imports
and the batch. "first steps" are the seconds of the first three calls: the second compiled one
captures and makes plans.

    python benchmarks/compiled_models.py [--only bert vit] [--rounds 7] [--threads 2]
        [--backend jit] [--json FILE] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _measure import (
    Worker,
    environment,
    most_resident,
    parsed,
    parser_of,
    report,
    resident,
    serve,
)

import fl_nn as nn
import fl_tensor as ft
from cases import settle
from models import MODELS
from models.training import Training, batch_of

WAYS = ("eager", "compiled")
#: Steps before the first that is timed; plans are made meanwhile.
WARM = 8
#: Steps of a training by either way have nearly the same losses.
TOLERANCE = 1e-4


def cases(way: str, name: str, backend: str, weights: Path, tiny: bool) -> dict[str, Any]:
    """What a worker answers."""
    ft.use(backend)
    model = MODELS[name]
    settings = model.small if tiny else {}
    batch = batch_of(model, settings, 2 if tiny else model.size)
    before = resident()
    ft.seed(0)
    training = Training(model, settings, weights, batch)
    began = time.perf_counter()

    def update() -> Any:
        training.optimizer.zero_grad()
        loss = training.model.loss(training.batch)
        loss.backward()
        training.optimizer.step()
        return loss

    call: Callable[[], Any] = nn.compile(update, strict=True) if way == "compiled" else update
    losses = [call().item() for _ in range(3)]
    seconds = time.perf_counter() - began
    return {
        "losses": lambda: losses,
        "first": lambda: seconds,
        "step": lambda: call().item(),
        "settle": settle,
        "memory": lambda: most_resident() - before,
    }


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The row of one model."""
    with tempfile.TemporaryDirectory(prefix="fl-compiled-") as folder, ExitStack() as stack:
        weights = Path(folder) / "weights.safetensors"
        ft.seed(0)
        nn.save_weights(weights, MODELS[name].build(**(MODELS[name].small if given.tiny else {})))
        workers = {
            way: stack.enter_context(
                Worker(
                    json.dumps([way, name, given.backend, str(weights)]),
                    given.threads,
                    tiny=given.tiny,
                )
            )
            for way in WAYS
        }
        losses = {way: worker.value("losses") for way, worker in workers.items()}
        for one, other in zip(losses["eager"], losses["compiled"], strict=True):
            if abs(one - other) > TOLERANCE * abs(one):
                raise SystemExit(f"{name}: the losses differ, {losses}")
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for i in range(WARM + given.rounds):
            for way, worker in workers.items():
                took = worker.timed("step", 1)
                if i >= WARM:
                    times[way].append(took)
                else:
                    worker.value("settle")
        first = {way: worker.value("first") for way, worker in workers.items()}
        memory = {way: worker.value("memory") for way, worker in workers.items()}
    median = {way: statistics.median(found) for way, found in times.items()}
    row: dict[str, Any] = {"model": name}
    row |= {f"{way}, ms": 1e3 * median[way] for way in WAYS}
    row["compiled / eager"] = median["compiled"] / median["eager"]
    row |= {f"{way}, MB": memory[way] / 1e6 for way in WAYS}
    row["memory, compiled / eager"] = memory["compiled"] / memory["eager"]
    return row | {f"{way}, first steps, s": first[way] for way in WAYS}


def main() -> None:
    parser = parser_of(__doc__, rounds=7)
    parser.add_argument("--only", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--backend", default="jit")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        way, name, backend, weights = json.loads(given.serve)
        serve(cases(way, name, backend, Path(weights), given.tiny))
        return
    rows = [measure(name, given) for name in (given.only[-1:] if given.tiny else given.only)]
    about = environment("numpy", "llvmlite", "fl-tensor", "fl-nn", "fl-jit")
    report(given, {**about, "threads": given.threads}, rows)


if __name__ == "__main__":
    main()
