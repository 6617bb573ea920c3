"""Training with one slow worker: synchronous, with backup workers, and over a parameter server.

No claim: a table. Three workers and a rank that coordinates or serves (`threads`) fit a linear
model of 64 weights. A gradient of 32 samples takes 5 ms, on the slow worker `--delay` ms more; both
are sleep, so that cores play no part. Each row ends when a fast worker took `--steps` steps.

    python benchmarks/stragglers.py [--steps 150] [--delay 50] [--rounds 5] [--json FILE]
        [--markdown] [--tiny]

Columns, medians over rounds:

* `step, ms`: the time of all steps, divided by the steps of a fast worker
* `gradients`: how many took part in the parameters, of the fast workers and of the slow one
* `dropped`: how many came too late
* `loss`: the mean squared error at the end, on samples that nobody trained on. Noise alone has 0.01
* `loss, 1 s`: the same after one second, for what ended later
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _measure import environment, parsed, parser_of, report

import fl_dist as dist
import fl_tensor as ft
from fl_dist import backup_workers
from fl_dist.parameter_server import ParameterClient, ParameterServer

WORKERS, SLOW = 3, 3
SIZE, BATCH, LR = 64, 32, 0.02
COMPUTE = 5e-3
TRUTH = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
Figures = dict[str, float]


def samples(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((count, SIZE)).astype(np.float32)
    return x, (x @ TRUTH + 0.1 * rng.standard_normal(count)).astype(np.float32)


HELD_OUT = samples(np.random.default_rng(1), 2000)


def loss(weights: ft.Tensor) -> float:
    x, y = HELD_OUT
    return float(np.mean((x @ weights.numpy() - y) ** 2))


def parameters() -> dict[str, ft.Tensor]:
    return {"weights": ft.zeros(SIZE)}


class Worker:
    """Computes gradients of one rank's samples, as slowly as it has to."""

    def __init__(self, rank: int, delay: float) -> None:
        self.rng = np.random.default_rng(rank)
        self.seconds = COMPUTE + (delay if rank == SLOW else 0.0)

    def gradients(self, values: dict[str, ft.Tensor], step: int = 0) -> dict[str, ft.Tensor]:
        x, y = samples(self.rng, BATCH)
        time.sleep(self.seconds)
        error = x @ values["weights"].numpy() - y
        return {"weights": ft.asarray((2 / BATCH) * (error @ x))}


class Curve:
    """Losses over time."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.after_one_second: float | None = None

    def note(self, weights: ft.Tensor) -> None:
        if self.after_one_second is None and time.perf_counter() - self.began >= 1.0:
            self.after_one_second = loss(weights)

    def figures(self, weights: ft.Tensor, steps: int) -> Figures:
        last = loss(weights)
        after = last if self.after_one_second is None else self.after_one_second
        step = 1e3 * (time.perf_counter() - self.began) / steps
        return {"step, ms": step, "loss": last, "loss, 1 s": after}


def synchronous(required: int) -> Callable[[int, float], Figures]:
    def train(steps: int, delay: float) -> Figures:
        def rank(comm: dist.Communicator) -> Figures | None:
            if comm.rank:
                backup_workers.work(comm, parameters(), Worker(comm.rank, delay).gradients)
                return None
            curve = Curve()

            def update(
                values: dict[str, ft.Tensor], means: dict[str, ft.Tensor]
            ) -> dict[str, ft.Tensor]:
                curve.note(values["weights"])
                return {"weights": values["weights"] - LR * means["weights"]}

            found = backup_workers.coordinate(
                comm, parameters(), update, steps=steps, required=required
            )
            return {
                **curve.figures(found.parameters["weights"], steps),
                "gradients, fast": sum(n for r, n in found.used.items() if r != SLOW),
                "gradients, slow": found.used[SLOW],
                "dropped": sum(found.dropped.values()),
            }

        first: Figures = dist.threads.run(WORKERS + 1, rank)[0]
        return first

    return train


def asynchronous(staleness: int | None) -> Callable[[int, float], Figures]:
    def train(steps: int, delay: float) -> Figures:
        over = threading.Event()

        def rank(comm: dist.Communicator) -> Any:
            if comm.rank == 0:
                curve = Curve()

                def update(key: str, value: ft.Tensor, gradient: ft.Tensor) -> ft.Tensor:
                    curve.note(value)
                    return value - (LR / WORKERS) * gradient

                server = ParameterServer(comm, parameters(), update, staleness=staleness)
                weights = server.serve()["weights"]
                return curve.figures(weights, steps)
            worker, client = Worker(comm.rank, delay), ParameterClient(comm, parameters())
            while client.clock < steps and not (comm.rank == SLOW and over.is_set()):
                client.push(worker.gradients(client.pull()))
                client.step()
            over.set()
            client.close()
            return client.clock

        first, *clocks = dist.threads.run(WORKERS + 1, rank)
        slow = clocks.pop(SLOW - 1)
        return {**first, "gradients, fast": sum(clocks), "gradients, slow": slow, "dropped": 0}

    return train


CASES = {
    "all of 3 workers": synchronous(3),
    "first 2 of 3": synchronous(2),
    "server, staleness 0": asynchronous(0),
    "server, staleness 4": asynchronous(4),
    "server, no bound": asynchronous(None),
}


def main() -> None:
    parser = parser_of(__doc__, 5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--delay", type=float, default=50.0, help="of the slow worker, in ms")
    given = parsed(parser)
    steps = 4 if given.tiny else given.steps
    rows: list[dict[str, Any]] = []
    for delay in (0.0, given.delay):
        for name, train in CASES.items():
            rounds = [train(steps, delay / 1e3) for _ in range(given.rounds)]
            row = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
            rows.append({"mode": name, "delay, ms": delay, **row})
    report(given, environment("numpy", "fl-dist"), rows, key=("mode", "delay, ms"))


if __name__ == "__main__":
    main()
