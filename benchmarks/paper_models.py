"""Training steps of the six models of the paper (forward, backward, SGD with momentum; data in
memory), against PyTorch: eager as users write it, eager as well tuned as it can be, compiled.

Claims (with `fl-tensor[jit,onednn]`): at least 1.15 to 1.20 times as fast
as PyTorch eager on every model, and not slower than the tuned one. See README.md for where we are.

Each library runs in a process of its own with the same threads; steps take turns, and a ratio is
that of the medians. Before any timing, the loss of a batch with copied weights, nothing dropped
out, must be PyTorch's.

    python benchmarks/paper_models.py [--only bert vit] [--rounds 7] [--peers eager tuned compile]
        [--backend jit] [--threads 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _measure import Worker, environment, report, serve

import fl_nn as nn
import fl_tensor as ft
from models import MODELS, Model

PEERS = ("eager", "tuned", "compile")
LR, MOMENTUM = 1e-3, 0.9
#: What PyTorch loses to page faults by default: memory of the system is kept.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(80 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
#: The models that take images: PyTorch is faster on them with channels last.
IMAGES = ("alexnet", "vgg16", "resnet50", "vit")


def our_cases(name: str, backend: str, folder: Path) -> dict[str, Callable[[], object]]:
    ft.use(backend)
    model, before = MODELS[name].build(), resident()
    nn.load_weights(folder / "weights.safetensors", model)
    optimizer = nn.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    batch = our_batch(MODELS[name])

    def loss() -> None:
        model.eval()
        value = model.loss(batch).item()
        model.train()
        (folder / f"loss of {backend}").write_text(repr(value))

    def step() -> None:
        optimizer.zero_grad()
        model.loss(batch).backward()
        optimizer.step()

    return {"loss": loss, "step": step, "peak": lambda: peak(folder, backend, before)}


def their_cases(name: str, peer: str, folder: Path) -> dict[str, Callable[[], object]]:
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, before = MODELS[name].twin(), resident()
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    batch = [torch.tensor(x.numpy()) for x in our_batch(MODELS[name])]
    if peer == "tuned" and name in IMAGES:
        model = model.to(memory_format=torch.channels_last)
        batch[0] = batch[0].contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    loss_of = torch.compile(model.loss) if peer == "compile" else model.loss

    def loss() -> None:
        model.eval()
        with torch.no_grad():
            value = model.loss(batch).item()
        model.train()
        (folder / f"loss of {peer}").write_text(repr(value))

    def step() -> None:
        optimizer.zero_grad()
        loss_of(batch).backward()
        optimizer.step()

    return {"loss": loss, "step": step, "peak": lambda: peak(folder, peer, before)}


def our_batch(model: Model) -> tuple[ft.Tensor, ...]:
    with ft.use("null"):
        maker = model.build()
    return maker.batch(model.size, ft.Generator(1))


def resident() -> int:
    """The most bytes of memory that this process has had so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak(folder: Path, library: str, before: int) -> None:
    (folder / f"peak of {library}").write_text(repr(resident() - before))


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The row of one model."""
    with tempfile.TemporaryDirectory(prefix="fl-paper-") as text, ExitStack() as stack:
        folder = Path(text)
        ft.seed(0)
        nn.save_weights(folder / "weights.safetensors", MODELS[name].build())
        workers: dict[str, Worker] = {}
        for library in (*given.peers, given.backend):
            own = MALLOC if library == "tuned" else {}
            worker = Worker(f"{library}:{name}:{folder}", given.threads, **own)
            workers[library] = stack.enter_context(worker)
        losses = {}
        for library, worker in workers.items():
            worker.timed("loss", 1)
            losses[library] = float((folder / f"loss of {library}").read_text())
        ours = losses[given.backend]
        if any(abs(ours - theirs) > 1e-4 * abs(theirs) for theirs in losses.values()):
            raise SystemExit(f"{name}: the losses differ, {losses}")
        first = {library: worker.timed("step", 1) for library, worker in workers.items()}
        for worker in workers.values():  # plans, kernels, caches
            worker.timed("step", 2)
        times: dict[str, list[float]] = {library: [] for library in workers}
        for _ in range(given.rounds):
            for library, worker in workers.items():
                times[library].append(worker.timed("step", 1))
        for worker in workers.values():
            worker.timed("peak", 1)
        peaks = {each: float((folder / f"peak of {each}").read_text()) for each in workers}
    median = {each: statistics.median(found) for each, found in times.items()}
    quartile = {each: statistics.quantiles(found, n=4)[0] for each, found in times.items()}
    row: dict[str, Any] = {"model": name, "ms": 1e3 * median[given.backend]}
    for peer in given.peers:
        row[f"{peer} ms"] = 1e3 * median[peer]
        row[f"x {peer}"] = median[peer] / median[given.backend]
        row[f"x {peer}, lower quartiles"] = quartile[peer] / quartile[given.backend]
    row["first step, s"] = first[given.backend]
    if "eager" in peaks:
        row["memory, x eager"] = peaks[given.backend] / peaks["eager"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--backend", default="jit", help="ours (jit, numpy)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        library, name, folder = given.serve.split(":")
        cases = their_cases if library in PEERS else our_cases
        serve(cases(name, library, Path(folder)))
        return
    rows = []
    for name in given.only:
        rows.append(measure(name, given))
        print(rows[-1], file=sys.stderr)
    about = environment("numpy", "torch", "llvmlite", "onednn-cpu-gomp", "fl-tensor")
    report(given, {**about, "threads": given.threads}, rows)


if __name__ == "__main__":
    main()
