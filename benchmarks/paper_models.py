"""Training steps of the six models of the paper, of its BERT-like model in full size, and of
ResNet-34 and DETR (forward, backward, SGD with momentum; data in memory), against PyTorch: eager as
users write it, eager as well tuned as it can be, compiled.

Claim (with `fl-tensor[jit]`): at least 1.15 to 1.20 times as fast as PyTorch eager on every
model, not slower than the best PyTorch of the run, and no more memory. README.md says where we are.

Each library runs in a process of its own with the same threads; steps take turns, and a ratio is
that of the medians. Before any timing, the loss of a batch with copied weights, nothing dropped
out, must be the same in all. A step ends with the number of its loss. Memory is the most that a
process had, less what it had with its imports and the batch, before there was a model. "tuned" is
PyTorch with channels last for images, one kernel for all updates, denormals flushed, and memory
that is kept and in large pages (environment of malloc); "tuned compile" is both. JAX takes part
where it can be imported and the model has a twin (`models/jax_twins.py`). "ours by oneDNN" is ours
with products and convolutions of that library (`examples/onednn-kernels`), in place of generated
ones.

    python benchmarks/paper_models.py [--only bert vit] [--rounds 7] [--peers eager tuned compile]
        [--backend jit] [--threads 2] [--before PYTHON] [--json FILE [--add]] [--markdown]

``--before PYTHON`` measures the packages of that interpreter, too, as "ours before".

With `--json FILE` the ratios are also drawn, into a PNG beside it; `--add` keeps the rows of FILE
for other models and for other peers, so that they can be measured one by one: four of the largest
of the six want 30 GB. Each row has the time of ours in its own run, which its ratios are to. Of
`paper-bert` one library is resident at a time, first ours: its steps do not take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
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
from _peers import require

import fl_nn as nn
import fl_tensor as ft
from cases import settle
from models import ALL_MODELS
from models.training import Training, batch_of

PEERS = ("eager", "tuned", "compile", "tuned compile", "jax", "ours by oneDNN")
JAX_MODELS = ("alexnet", "bert")
#: Memory that is freed stays with the process: PyTorch loses much to page faults otherwise.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(80 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # in large pages where there are any
}


#: Ours is the backend that users get, unless ``--backend`` names one.
OURS = "ours"
BEFORE = "ours before"


def cases(peer: str, backend: str, name: str, weights: Path, tiny: bool) -> dict[str, Any]:
    """What a worker answers: for us (on a backend, if there is one named), or one of ``PEERS``."""
    ours = peer.startswith(OURS)
    if ours and backend:
        ft.use(backend)
    model = ALL_MODELS[name]
    settings = model.small if tiny else {}
    batch = batch_of(model, settings, 2 if tiny else model.size)
    make: Callable[..., Any]
    if ours:
        make = partial(Training, model, settings)
    elif peer == "jax":
        from models import jax_twins

        make = partial(jax_twins.Training, name)
    else:
        from models.twins import training

        words = peer.split()
        how = {"tuned": "tuned" in words, "compiled": "compile" in words}
        make = partial(training.Training, model, settings, **how)
    before = resident()
    trained = make(weights, batch)
    return {
        "loss": trained.loss,
        "step": trained.step,
        "settle": settle if ours else lambda: None,
        "memory": lambda: most_resident() - before,
    }


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The row of one model."""
    with tempfile.TemporaryDirectory(prefix="fl-paper-") as folder:
        weights = Path(folder) / "weights.safetensors"
        ft.seed(0)
        settings = ALL_MODELS[name].small if given.tiny else {}
        nn.save_weights(weights, ALL_MODELS[name].build(**settings))
        peers = [OURS, *peers_of(name, given)]
        losses: dict[str, float] = {}
        times: dict[str, list[float]] = {}
        memory: dict[str, int] = {}
        for together in [[peer] for peer in peers] if ALL_MODELS[name].alone else [peers]:
            found = measure_together(name, given, together, weights)
            for every, some in zip((losses, times, memory), found, strict=True):
                every.update(some)
    compare_losses(name, losses)
    return {"model": name, "peers": ", ".join(peers_of(name, given)), **row_of(times, memory)}


def measure_together(
    name: str, given: argparse.Namespace, peers: list[str], weights: Path
) -> tuple[dict[str, float], dict[str, list[float]], dict[str, int]]:
    """Losses, seconds of each step and memory of libraries, which take turns."""
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for peer in peers:
            worker = Worker(
                json.dumps([peer, given.backend, name, str(weights)]),
                given.threads,
                tiny=given.tiny,
                python=given.before if peer == BEFORE else sys.executable,
                **surroundings(peer),
            )
            workers[peer] = stack.enter_context(worker)
        losses = {peer: worker.value("loss") for peer, worker in workers.items()}
        compare_losses(name, losses)
        for peer, worker in workers.items():  # plans, kernels, caches; ours takes longer to settle
            for _ in range(1 if given.tiny else 8 if peer.startswith(OURS) else 4):
                worker.timed("step", 1)
                worker.value("settle")
        times: dict[str, list[float]] = {peer: [] for peer in workers}
        for _ in range(given.rounds):
            for peer, worker in workers.items():
                times[peer].append(worker.timed("step", 1))
        return losses, times, {peer: worker.value("memory") for peer, worker in workers.items()}


def compare_losses(name: str, losses: dict[str, float]) -> None:
    """Ends the program where libraries give different losses."""
    one = next(iter(losses.values()))
    if any(abs(one - loss) > 1e-4 * abs(loss) for loss in losses.values()):
        raise SystemExit(f"{name}: the losses differ, {losses}")


def surroundings(peer: str) -> dict[str, str]:
    """The environment of a worker."""
    if peer.startswith("tuned"):
        return MALLOC
    return {"FL_KERNEL_LIBRARIES": "onednn"} if peer.endswith("oneDNN") else {}


def peers_of(name: str, given: argparse.Namespace) -> list[str]:
    """The peers that this model has."""
    before = [BEFORE] if given.before else []
    if given.tiny:
        return before
    known = [peer for peer in PEERS if peer in given.peers]
    return [peer for peer in known if peer != "jax" or name in JAX_MODELS] + before


def row_of(times: dict[str, list[float]], memory: dict[str, int]) -> dict[str, float]:
    """Medians, and each peer's divided by ours: of all steps, and of the lower quartiles."""
    median = {peer: statistics.median(found) for peer, found in times.items()}
    row = {"ours, ms": 1e3 * median[OURS]}
    peers = [peer for peer in times if peer != OURS]
    for peer in peers:
        row[f"{peer}, ms"] = 1e3 * median[peer]
    for peer in peers:
        row[f"{peer} / ours"] = median[peer] / median[OURS]
    for peer in peers:
        row[f"{peer} / ours, lower quartiles"] = quartile(times[peer]) / quartile(times[OURS])
    row["memory, MB"] = memory[OURS] / 1e6
    if "eager" in peers:
        row["memory, ours / eager"] = memory[OURS] / memory["eager"]
    return row


def quartile(times: list[float]) -> float:
    """The lower one."""
    return statistics.quantiles(times, n=4)[0] if len(times) > 1 else times[0]


def draw(path: Path, about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The ratios of medians as bars, those of all runs of a model together."""
    groups: dict[str, dict[str, float]] = {row["model"]: {} for row in rows}
    for row in rows:
        groups[row["model"]] |= {
            column.removesuffix(" / ours"): value
            for column, value in row.items()
            if column.endswith(" / ours")
        }
    if any(groups.values()):
        known = ("date", "machine", "threads", "torch", "fl-tensor")
        title = "Time of a training step, divided by ours: above 1, ours is faster\n"
        title += ", ".join(f"{k} {about[k]}" for k in known)
        nn.plot.bars(groups, line=1.0, ylabel="peer / ours", title=title, path=path)


def main() -> None:
    parser = parser_of(__doc__, rounds=7)
    parser.add_argument("--only", nargs="+", default=list(ALL_MODELS), choices=list(ALL_MODELS))
    parser.add_argument("--peers", nargs="*", default=list(PEERS[:3]), choices=PEERS)
    parser.add_argument("--backend", default="", help="ours; the default one if not given")
    parser.add_argument("--before", metavar="PYTHON", help="an interpreter with older packages")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        peer, backend, name, weights = json.loads(given.serve)
        serve(cases(peer, backend, name, Path(weights), given.tiny))
        return
    if not given.tiny:
        ours = [peer for peer in given.peers if peer.startswith(OURS)]
        theirs = ["jax" if peer == "jax" else "torch" for peer in given.peers if peer not in ours]
        readers = ["safetensors"] if theirs else []  # of the weights that they start with
        require([*theirs, *readers], "install it, or name other --peers (none: ours alone)")
    rows = []
    for name in given.only:
        rows.append(measure(name, given))
        print(rows[-1], file=sys.stderr)
    about = {
        **environment("numpy", "torch", "jax", "llvmlite", "onednn-cpu-gomp", "fl-tensor"),
        "threads": given.threads,
        "backend": given.backend or ft.current_backend().name,
        "kernel libraries": os.environ.get("FL_KERNEL_LIBRARIES", "generated"),
    }
    rows = report(given, about, rows, key=("model", "peers"))
    if given.json:
        draw(given.json.with_suffix(".png"), about, rows)


if __name__ == "__main__":
    main()
