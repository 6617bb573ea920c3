"""Data parallel training of two models of the paper: two processes of one thread each.

Claim: at least 0.93 times the samples a second of two single processes that are started together
and know nothing of one another, and not fewer than PyTorch's DistributedDataParallel over gloo.

Each pair of processes has its turn alone: both are asked for some steps at once, and the slower one
counts. A ratio is that of medians. Every process has a batch of the model's size, and the same
batch: then the mean gradient is that of one process, and all losses must agree. PyTorch does not
broadcast buffers.

"hidden" is measured with a transport that is slowed down: each all_reduce sleeps first, by its
bytes, altogether 30 % of a step. It is the share of this time that sending gradients during
backward saves, against sending them afterwards.

    python benchmarks/data_parallel.py [--only bert] [--communicator processes] [--rounds 7]
        [--steps 2] [--no-torch] [--json FILE [--add]] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from _measure import Worker, environment, parsed, parser_of, report, serve
from _peers import require

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from cases import settle
from fl_nn.data_parallel import GradientAverage
from models import MODELS
from models.training import Training, batch_of

NAMES = ("resnet50", "bert")
#: The pairs of processes.
ALONE, OURS, TORCH = "two alone", "data parallel", "torch DDP"
SLOWED = 0.3


class DataParallelTraining(Training):
    """A training step whose gradient is the mean of all ranks; of a transport that can be slow."""

    def __init__(self, communicator: dist.Communicator, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.average = GradientAverage(communicator, self.optimizer.parameters)
        self.seconds_per_byte = 0.0
        reduce = communicator.do_all_reduce

        def slowed(x: ft.Tensor, *rest: Any, **options: Any) -> ft.Tensor:
            time.sleep(self.seconds_per_byte * x.nbytes)
            return reduce(x, *rest, **options)

        communicator.do_all_reduce = slowed  # type: ignore[method-assign]

    def step(self) -> float:
        return self._step(overlapped=True)

    def step_slowed(self) -> float:
        return self._step(overlapped=True)

    def step_slowed_at_the_end(self) -> float:
        return self._step(overlapped=False)

    def slow_down(self) -> float:
        """From now on transport takes longer; by how many seconds in a step."""
        start = time.perf_counter()
        self.step()
        delay = SLOWED * (time.perf_counter() - start)
        sizes = [p.tensor.nbytes for p in self.optimizer.parameters]
        self.seconds_per_byte = delay / sum(sizes)
        return delay

    def _step(self, overlapped: bool) -> float:
        self.optimizer.zero_grad()
        share = 1.0 / self.average.begin(1)
        loss = self.model.loss(self.batch)
        with self.average.overlapped() if overlapped else nullcontext():
            loss.backward(share)
        mean = self.average.finish(loss.item() * share)
        self.optimizer.step()
        return mean


def cases(pair: str, communicator: str, name: str, weights: Path, tiny: bool) -> dict[str, Any]:
    """What a process answers."""
    model = MODELS[name]
    settings = {**(model.small if tiny else {}), **model.still}
    batch = batch_of(model, settings, 2 if tiny else model.size)
    trained: Any
    if pair == TORCH:
        from models.twins.distributed import DistributedTraining

        trained = DistributedTraining(model, settings, weights, batch)
    elif pair == OURS:
        joined = dist.load(communicator).join(dist.environment())
        trained = DataParallelTraining(joined, model, settings, weights, batch)
    else:
        trained = Training(model, settings, weights, batch)
    answers: dict[str, Callable[[], Any]] = {"step": trained.step, "settle": lambda: None}
    if pair != TORCH:
        answers["settle"] = settle
    if pair == OURS:
        for case in (trained.slow_down, trained.step_slowed, trained.step_slowed_at_the_end):
            answers[case.__name__] = case
    return answers


class Pair:
    """Two processes that are asked at once."""

    def __init__(self, stack: ExitStack, serves: str, folder: str, tiny: bool) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.workers = []
        for rank in range(2):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
            size = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            meeting["FL_DIST_STORE"] = f"file:{folder}"
            worker = Worker(serves, 1, tiny=tiny, **place, **size, **meeting)
            self.workers.append(stack.enter_context(worker))

    def request(self, question: str) -> list[Any]:
        for worker in self.workers:
            worker.begin(question)
        return [worker.end() for worker in self.workers]

    def timed(self, case: str, count: int) -> float:
        """Seconds per call, until both have made theirs."""
        return max(self.request(f"{case} {count}"))


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The row of one model."""
    with tempfile.TemporaryDirectory(prefix="fl-data-parallel-") as folder, ExitStack() as stack:
        weights = Path(folder) / "weights.safetensors"
        ft.seed(0)
        model = MODELS[name]
        settings = {**(model.small if given.tiny else {}), **model.still}
        nn.save_weights(weights, model.build(**settings))
        names = [ALONE, OURS] if given.tiny or given.no_torch else [ALONE, OURS, TORCH]
        pairs = {}
        for pair in names:
            serves = json.dumps([pair, given.communicator, name, str(weights)])
            pairs[pair] = Pair(
                stack, serves, str(Path(folder) / pair.replace(" ", "-")), given.tiny
            )
        losses = {pair: worker.request("step value") for pair, worker in pairs.items()}
        if any(abs(x - losses[ALONE][0]) > 1e-4 * abs(x) for both in losses.values() for x in both):
            raise SystemExit(f"{name}: the losses differ, {losses}")
        for worker in pairs.values():  # plans, kernels, caches
            for _ in range(1 if given.tiny else 8):
                worker.timed("step", 1)
                worker.request("settle value")
        times = _in_turns(given, {pair: (worker, "step") for pair, worker in pairs.items()})
        late = statistics.mean(pairs[OURS].request("slow_down value"))
        slowed = _in_turns(
            given, {case: (pairs[OURS], case) for case in ("step_slowed", "step_slowed_at_the_end")}
        )
    samples = 2 * (2 if given.tiny else model.size)
    row: dict[str, Any] = {"model": name, "communicator": given.communicator}
    row |= {f"{pair}, samples/s": samples / seconds for pair, seconds in times.items()}
    row["data parallel / two alone"] = times[ALONE] / times[OURS]
    if TORCH in times:
        row["data parallel / torch DDP"] = times[TORCH] / times[OURS]
    saved = slowed["step_slowed_at_the_end"] - slowed["step_slowed"]
    row["delay, ms"] = 1e3 * late
    row["hidden"] = saved / late
    return row


def _in_turns(given: argparse.Namespace, calls: dict[str, tuple[Pair, str]]) -> dict[str, float]:
    """Medians over rounds, in which each has its turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(given.rounds):
        for name, (pair, case) in calls.items():
            times[name].append(pair.timed(case, given.steps))
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    parser = parser_of(__doc__, rounds=7)
    parser.add_argument("--only", nargs="+", default=list(NAMES), choices=list(MODELS))
    parser.add_argument("--communicator", default="processes")
    parser.add_argument("--steps", type=int, default=2, help="in a turn")
    parser.add_argument("--no-torch", action="store_true", help="ours alone")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        pair, communicator, name, weights = json.loads(given.serve)
        serve(cases(pair, communicator, name, Path(weights), given.tiny))
        return
    if not (given.tiny or given.no_torch):
        require(["torch", "safetensors"], "install it, or give --no-torch")
    rows = []
    for name in given.only:
        rows.append(measure(name, given))
        print(rows[-1], file=sys.stderr)
    about = {
        **environment("numpy", "torch", "fl-tensor", "fl-dist"),
        "processes": 2,
        "threads of each": 1,
        "backend": ft.current_backend().name,
        "cores": os.cpu_count(),
    }
    report(given, about, rows, key=("model", "communicator"))


if __name__ == "__main__":
    main()
