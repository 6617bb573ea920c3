"""What `fl_nn.parallel.planner` predicts of a training step, and what the step then takes.

Claim: time and peak of live bytes (fl-memory) are within 15 % of the prediction, in 6 settings of a
Transformer: plain, half of the layers checkpointed, all of them, and sharding stages 1, 2 and 3 on
two processes of one thread each.

    python benchmarks/planner.py [--backends numpy jit] [--size 256] [--layers 4] [--steps 64]
        [--batch 8] [--rounds 5] [--json FILE [--add]] [--markdown] [--tiny]

In each round the processes of a world measure, and then take steps of each setting in turn. Times
and their ratio are medians over rounds, on the slowest rank; a peak is of the rank that has most.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

from _measure import environment, parsed, parser_of, report

import fl_dist as dist
import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from fl_memory.managers.system import SystemManager
from fl_nn.parallel import planner

CLASSES = 16
#: World size, and its settings: stage of sharding, share of the layers that are checkpointed.
SETTINGS = {
    1: {"plain": (0, 0.0), "half checkpointed": (0, 0.5), "all checkpointed": (0, 1.0)},
    2: {"stage 1": (1, 0.0), "stage 2": (2, 0.0), "stage 3": (3, 0.0)},
}


class Workload:
    """A model, what it learns from, and its optimizer."""

    def __init__(self, given: argparse.Namespace, rank: int) -> None:
        ft.seed(1)
        size = given.size
        layers = [
            nn.TransformerEncoderLayer(size, size // 32, 4 * size) for _ in range(given.layers)
        ]
        self.model = nn.Sequential(*layers, nn.Linear(size, CLASSES))
        self.optimizer = nn.AdamW(self.model.parameters())
        g = ft.Generator(rank)
        shape = (given.batch, given.steps)
        self.x = ft.randn((*shape, size), g)
        self.target = ft.floor(ft.rand(shape, g) * CLASSES).astype(ft.int64)
        ft.eval(self.x, self.target)

    @staticmethod
    def loss(output: ft.Array, target: ft.Array) -> Any:
        return nn.cross_entropy(ft.reshape(output, (-1, CLASSES)), ft.reshape(target, (-1,)))


class Training:
    """Steps of a plan."""

    def __init__(
        self, given: argparse.Namespace, comm: dist.Communicator, plan: planner.Plan
    ) -> None:
        self.plan, self.manager = plan, SystemManager()
        with mem.use(self.manager):
            self.workload = Workload(given, comm.rank)
            self.trained = plan.apply(self.workload.model, self.workload.optimizer, comm)
        self.step()
        self.step()

    def step(self) -> None:
        with mem.use(self.manager):
            self.trained.zero_grad()
            workload = self.workload
            workload.loss(workload.model(workload.x), workload.target).backward()
            self.trained.step()

    def ms(self, comm: dist.Communicator, count: int) -> float:
        """Of a step, the median of `count`."""
        spent = []
        for _ in range(count):
            comm.barrier()
            began = time.perf_counter()
            self.step()
            spent.append(1e3 * (time.perf_counter() - began))
        return statistics.median(spent)

    def peak(self) -> int:
        """The most bytes alive in a step."""
        live = most = self.manager.stats().live_bytes

        def count(event: mem.Event) -> None:
            nonlocal live, most
            if event.kind in ("alloc", "free"):
                live += event.nbytes if event.kind == "alloc" else -event.nbytes
                most = max(most, live)

        remove = self.manager.on_event(count)
        self.step()
        remove()
        return most


def row(
    name: str, comm: dist.Communicator, times: Sequence[Sequence[float]], predicted: int, peak: int
) -> dict[str, Any]:
    """The row of a setting: its times, (predicted, of a step), by round, and its peak."""
    ms = [comm.all_reduce(ft.asarray(one, ft.float64), "max").tolist() for one in times]
    most = comm.all_reduce(ft.asarray(peak, ft.int64), "max").item()
    return {
        "setting": name,
        "backend": ft.current_backend().name,
        "predicted, ms": statistics.median(one for one, _ in ms),
        "step, ms": statistics.median(one for _, one in ms),
        "predicted / step": statistics.median(one / other for one, other in ms),
        "predicted, MB": predicted / 1e6,
        "peak, MB": most / 1e6,
        "predicted / peak": predicted / most,
    }


def world(comm: dist.Communicator, backend: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the settings of a world."""
    ft.use(backend)
    workload = Workload(given, comm.rank)
    runs: dict[str, Training] = {}
    times: dict[str, list[list[float]]] = {name: [] for name in SETTINGS[comm.world_size]}
    for _ in range(given.rounds):
        found = planner.measure(
            workload.model,
            (workload.x, workload.target),
            workload.loss,
            workload.optimizer,
            comm,
            rounds=given.turn,
        )
        for name, (stage, share) in SETTINGS[comm.world_size].items():
            checkpointed = range(int(share * given.layers))
            plan = planner.predict(found, stage, checkpointed, (), comm.world_size)
            if name not in runs:
                runs[name] = Training(given, comm, plan)
            times[name].append([plan.predicted_ms, runs[name].ms(comm, given.turn)])
    return [
        row(name, comm, times[name], run.plan.predicted_peak_bytes, run.peak())
        for name, run in runs.items()
    ]


def main() -> None:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("--backends", nargs="+", default=["numpy", "jit"])
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    given = parsed(parser)
    given.turn = 1 if given.tiny else 4
    if given.tiny:
        given.size, given.layers, given.steps, given.batch = 32, 2, 4, 2
        given.backends = ["numpy"]
    for pool in ("OMP", "OPENBLAS", "MKL"):  # read by the processes, which start later
        os.environ[f"{pool}_NUM_THREADS"] = "1"
    rows = []
    for backend in given.backends:
        for ranks in SETTINGS:
            rows += dist.load("processes").run(ranks, world, backend, given)[0]
    about = environment("numpy", "llvmlite", "fl-memory", "fl-dist", "fl-nn")
    about |= {key: getattr(given, key) for key in ("size", "layers", "steps", "batch")}
    report(given, about, rows, key=("setting", "backend"))


if __name__ == "__main__":
    main()
