"""How long the first training step of each of the six models takes: with an empty cache of kernels,
and with what a process before has left there.

Claims (2 cores, `fl-tensor[jit]`): at most 15 s with an empty cache, 3 s with a warm one.

Each row is three processes, one after the other, which share a folder of caches that is empty at
first: `first step s` is what a user waits for, `until fast s` all steps until one takes at most
1.2 times the fastest, `compiling s` what LLVM did of that, in another thread. The folder has
Python's byte code, too, as an installed package has, whatever PYTHONDONTWRITEBYTECODE says.
`--peer` adds PyTorch compiled, which caches, too.

    python benchmarks/compile_latency.py [--only bert vit] [--peer] [--threads 2]
        [--backend jit] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from _measure import environment, parsed, parser_of, report

import fl_nn as nn
import fl_tensor as ft
from models import MODELS, Model

STATES = ("empty", "warm", "warm again")
LR, MOMENTUM = 1e-3, 0.9


def our_step(model: Model, settings: dict[str, Any], size: int) -> Callable[[], object]:
    ft.seed(0)
    network = model.build(**settings)
    optimizer = nn.SGD(network.parameters(), lr=LR, momentum=MOMENTUM)
    batch = network.batch(size, ft.Generator(1))

    def step() -> None:
        optimizer.zero_grad()
        loss = network.loss(batch)
        loss.backward()
        optimizer.step()

    return step


def their_step(model: Model, size: int) -> Callable[[], object]:
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with ft.use("null"):
        model = model.build()
    batch = [torch.tensor(x.numpy()) for x in model.batch(size, ft.Generator(1))]
    network = model.twin()
    optimizer = torch.optim.SGD(network.parameters(), lr=LR, momentum=MOMENTUM)
    loss_of = torch.compile(network.loss)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(batch).backward()
        optimizer.step()

    return step


def timed_compilations() -> list[float]:
    """The seconds of each module that LLVM will compile."""
    try:
        from fl_jit.kernels.codegen import compile
    except ImportError:
        return []
    seconds: list[float] = []
    original = compile.compiled

    def timed(*arguments: Any) -> bytes:
        start = time.perf_counter()
        code = original(*arguments)
        seconds.append(time.perf_counter() - start)
        return code

    compile.compiled = timed
    return seconds


def serve(library: str, backend: str, name: str, tiny: bool) -> None:
    """Time steps in this process, from the first one on."""
    model = MODELS[name]
    compiled: list[float] = []
    if library == "ours":
        if backend:
            ft.use(backend)
        if ft.current_backend().name == "jit":
            compiled = timed_compilations()
        step = our_step(model, dict(model.small) if tiny else {}, 2 if tiny else model.size)
    else:
        step = their_step(model, model.size)
    times = []
    for _ in range(3 if tiny else 8):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"times": times, "compiled": compiled}))


def row_of(name: str, library: str, state: str, folder: str, given: Any) -> dict[str, Any]:
    command = [sys.executable, __file__, "--serve", json.dumps([library, given.backend, name])]
    pools = {f"{pool}_NUM_THREADS": str(given.threads) for pool in ("OMP", "OPENBLAS", "MKL")}
    caches = {
        "FL_CACHE_DIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch",
        "PYTHONPYCACHEPREFIX": f"{folder}/python",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    done = subprocess.run(
        [*command, "--tiny"] if given.tiny else command,
        env={**os.environ, **pools, **caches},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    times, compiled = found["times"], found["compiled"]
    steady = next(i for i, t in enumerate(times) if t <= 1.2 * min(times))
    return {
        "model": name if library == "ours" else f"{name}, torch.compile",
        "cache": state,
        "first step s": times[0],
        "until fast s": sum(times[:steady]),
        "step s": min(times),
        "kernels compiled": len(compiled) if library == "ours" else "",
        "compiling s": sum(compiled) if library == "ours" else "",
    }


def main() -> None:
    parser = parser_of(__doc__, rounds=1)
    parser.add_argument("--only", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--peer", action="store_true", help="torch.compile, too")
    parser.add_argument("--backend", default="", help="ours; the default one if not given")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        serve(*json.loads(given.serve), given.tiny)
        return
    rows = []
    for name in ["bert"] if given.tiny else given.only:
        for library in ("ours", "compile") if given.peer else ("ours",):
            with tempfile.TemporaryDirectory(prefix="fl-latency-") as folder:
                for state in STATES:
                    rows.append(row_of(name, library, state, folder, given))
                    print(rows[-1], file=sys.stderr)
    about = {
        **environment("numpy", "torch", "llvmlite", "onednn-cpu-gomp", "fl-tensor"),
        "threads": given.threads,
        "backend": given.backend or ft.current_backend().name,
    }
    report(given, about, rows)


if __name__ == "__main__":
    main()
