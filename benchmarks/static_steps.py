"""Training steps by ``nn.compile``, beside eager steps, PyTorch and JAX.

Claim: a compiled step on `jit` takes at most 0.5 (tiny), 0.8 (mlp), 0.7 (cnn), 2.0 (lstm) and 0.75
(transformer) of the time of PyTorch eager. It takes at most 1.2 (mlp), 0.65 (cnn), 3.5 (lstm) and
0.75 (transformer) of the time of `jax.jit`. Later bars there are 1.0 (tiny) and 1.5 (lstm). On
`numpy` it takes at most 0.4 (tiny) and 0.95 of the time of an eager step, with the same bits.

Forward, backward, and SGD with momentum. `torch.compile` compiles the loss with its gradients, and
its optimizer is PyTorch's own. `jax.jit` compiles the whole step (`_jax_steps.py`); it takes part
where JAX is installed. Each library runs in a process of its own, and they take turns. Times are
medians over rounds. ``--first`` gives the seconds of the first 30 steps of a new process instead:
captures, compilers and plans. Claim there: compiled on `jit` they take at most half of eager's.

    python benchmarks/static_steps.py [--rounds N] [--only mlp lstm] [--threads N] [--first]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns
from _peers import installed

OURS = ("numpy", "numpy, compiled", "jit", "jit, compiled")
PYTORCH = ("torch", "torch.compile")
JAX = "jax.jit"
CASES = ("tiny", "mlp", "cnn", "lstm", "transformer")
WARM = 30
LR, MOMENTUM = 0.01, 0.9
#: Shape of a batch, and number of classes.
BATCHES = {
    "tiny": ((4, 16), 16),
    "mlp": ((64, 784), 10),
    "cnn": ((16, 1, 28, 28), 10),
    "lstm": ((16, 20, 32), 10),
    "transformer": ((8, 32, 64), 10),
}


def ours(case: str) -> Any:
    import fl_nn as nn

    class Last(nn.Module):
        def __init__(self, body: nn.Module, features: int) -> None:
            self.body, self.head = body, nn.Linear(features, 10)

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            y = y[0] if isinstance(y, tuple) else y
            return self.head(y[:, -1])

    if case in ("tiny", "mlp"):
        sizes = (16, 16, 16, 16) if case == "tiny" else (784, 256, 256, 10)
        layers: list[nn.Module] = []
        for a, b in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers[:-1])
    if case == "cnn":
        return nn.Sequential(
            nn.Conv2D(1, 32, 5, padding=2), nn.ReLU(), nn.Pool2D(2),
            nn.Conv2D(32, 64, 5, padding=2), nn.ReLU(), nn.Pool2D(2),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    if case == "lstm":
        return Last(nn.LSTM(32, 64, batch_first=True), 64)
    layers = [nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0) for _ in range(2)]
    return Last(nn.Sequential(*layers), 64)


def our_step(case: str, compiled: bool) -> Callable[[], object]:
    import fl_nn as nn
    import fl_tensor as ft

    ft.seed(0)
    model = ours(case)
    optimizer = nn.SGD(model.parameters(), LR, momentum=MOMENTUM)
    shape, classes = BATCHES[case]
    data = ft.Generator(1)
    x, y = data.normal(shape), data.integers(0, classes, shape[:1])

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    call = nn.compile(step, model, optimizer, strict=True) if compiled else step

    def run() -> None:
        ft.eval(call(x, y))

    return run


def theirs(case: str) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Last(nn.Module):  # type: ignore[misc]
        def __init__(self, body: Any, features: int) -> None:
            super().__init__()
            self.body, self.head = body, nn.Linear(features, 10)

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            y = y[0] if isinstance(y, tuple) else y
            return self.head(y[:, -1])

    if case in ("tiny", "mlp"):
        sizes = (16, 16, 16, 16) if case == "tiny" else (784, 256, 256, 10)
        layers: list[Any] = []
        for a, b in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers[:-1])
    if case == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    if case == "lstm":
        return Last(nn.LSTM(32, 64, batch_first=True), 64)
    made = [nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True) for _ in range(2)]
    return Last(nn.Sequential(*made), 64)


def their_step(case: str, compiled: bool) -> Callable[[], object]:
    import torch
    from torch import nn

    model = theirs(case)
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM)
    shape, classes = BATCHES[case]
    x, y = torch.randn(shape), torch.randint(0, classes, shape[:1])
    loss_of = nn.CrossEntropyLoss()

    def forward(x: Any, y: Any) -> Any:
        return loss_of(model(x), y)

    forward = torch.compile(forward) if compiled else forward

    def run() -> None:
        optimizer.zero_grad()
        forward(x, y).backward()
        optimizer.step()

    return run


def libraries(tiny: bool) -> tuple[str, ...]:
    """Those of a run: ours alone in miniature, JAX where it is installed."""
    if tiny:
        return OURS
    if installed("jax"):
        return (*OURS, *PYTORCH, JAX)
    print(f"jax is not installed: no columns of {JAX}", file=sys.stderr)
    return (*OURS, *PYTORCH)


def surroundings(library: str, threads: int) -> dict[str, str]:
    """Variables that limit the threads of XLA, which reads them at its start. NPROC is the size of
    its pool. Without the flag, the thread that calls an operation computes beside a pool of one."""
    if library != JAX:
        return {}
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"} if threads == 1 else {}
    return {"JAX_PLATFORMS": "cpu", "NPROC": str(threads), **flags}


def step_of(library: str, case: str) -> Callable[[], object]:
    """A step of a case that has not run yet."""
    import fl_tensor as ft

    name, _, how = library.partition(", ")
    threads = int(os.environ["OMP_NUM_THREADS"])
    if library.startswith("torch"):
        import torch

        torch.set_num_threads(threads)
        return their_step(case, library != "torch")
    if library == JAX:
        from _jax_steps import jax_step

        return jax_step(case, *BATCHES[case], LR, MOMENTUM)
    ft.set_num_threads(threads)
    ft.use(name)
    return our_step(case, bool(how))


def warm(library: str, case: str) -> Callable[[], object]:
    step = step_of(library, case)
    for _ in range(WARM):
        step()
    if library.startswith("jit"):
        import fl_tensor as ft

        ft.jit.wait()
    return step


def seconds_of_first_steps(library: str, case: str) -> float:
    step = step_of(library, case)
    began = time.perf_counter()
    for _ in range(WARM):
        step()
    return time.perf_counter() - began


def first_steps(given: argparse.Namespace, compared: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of the seconds of first steps."""
    rows = []
    for case in given.only or CASES:
        row: dict[str, Any] = {"step": case}
        for one in compared:
            around = surroundings(one, given.threads)
            with Worker(one, given.threads, arguments=["--first"], **around) as worker:
                row[f"{one}, s"] = worker.value(case)
        row["jit, compiled / eager"] = row["jit, compiled, s"] / row["jit, s"]
        rows.append(row)
    return rows


def main() -> None:
    parser = parser_of(__doc__, 15)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--first", action="store_true", help="seconds of the first 30 steps")
    given = parsed(parser)
    if given.serve:
        if given.first:
            serve({case: partial(seconds_of_first_steps, given.serve, case) for case in CASES})
        else:
            serve(OneAtATime(lambda case: warm(given.serve, case)))
        return
    compared = libraries(given.tiny)
    about = environment("numpy", "llvmlite", "torch", "jax", "fl-tensor", "fl-nn", "fl-jit")
    if given.first:
        report(given, about, first_steps(given, compared))
        return
    rows = []
    for case in given.only or (CASES[:1] if given.tiny else CASES):
        with ExitStack() as stack:
            workers = {}
            for one in compared:
                worker = Worker(one, given.threads, **surroundings(one, given.threads))
                workers[one] = stack.enter_context(worker)
            times = take_turns(workers, case, given.rounds, given.moment)
        row: dict[str, Any] = {"step": case}
        row |= {f"{one}, us": 1e6 * time for one, time in times.items()}
        row["numpy, compiled / eager"] = times["numpy, compiled"] / times["numpy"]
        row["jit, compiled / eager"] = times["jit, compiled"] / times["jit"]
        for peer in compared[len(OURS) :]:
            row[f"jit, compiled / {peer}"] = times["jit, compiled"] / times[peer]
        rows.append(row)
    report(given, about, rows)


if __name__ == "__main__":
    main()
