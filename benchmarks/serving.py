"""Models served from files, without their code: start, and one sample, beside PyTorch.

Claim: a process that imports `fl_tensor`, loads a file of 12 MiB and gives the first answer takes
at most 80 ms more on `numpy` than `import numpy` alone, and at most 200 ms more on `jit` with a
warm kernel cache. One sample of the models of `static_steps.py` takes at most 0.9 (mlp), 0.55 (cnn)
and 1.75 (transformer) of the time of PyTorch eager, on the better one of the two backends.

A start is a new process, whose modules have been compiled to bytecode before. Samples are tensors
of each library, and PyTorch runs in `inference_mode`. Each library runs in a process of its own,
and they take turns. Times are medians over rounds.

    python benchmarks/serving.py [--rounds N] [--threads N] [--clock NAME]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns
from static_steps import BATCHES, ours, theirs

BACKENDS = ("numpy", "jit")
CASES = ("mlp", "cnn", "transformer")
#: Layers of the model that starts: 12 MiB of weights, or few.
SIZES = {False: (784, 1792, 1024, 10), True: (16, 16, 10)}
#: Says how long `import numpy` takes, and all that comes after it, in ms.
START = """
import json, sys, time
clock = getattr(time, sys.argv[4])
begin = clock()
import numpy
ready = clock()
import fl_tensor as ft
model = ft.load_graph(sys.argv[1], sys.argv[2])
model(numpy.ones((1, int(sys.argv[3])), numpy.float32)).numpy()
end = clock()
assert "fl_nn" not in sys.modules
print(json.dumps([1e3 * (ready - begin), 1e3 * (end - ready)]))
"""


def save(model: Any, shape: tuple[int, ...], backend: str, path: Path) -> None:
    """Write a model for arguments of this shape."""
    import fl_nn as nn
    import fl_tensor as ft

    with ft.use(backend):
        model.eval()
        nn.compile(model, strict=True).save(path, ft.ones(shape))


def starts(rounds: int, threads: int, clock: str, tiny: bool) -> list[dict[str, Any]]:
    """A row for each backend: the size of the file, and the times of a start."""
    import fl_nn as nn
    import fl_tensor as ft

    sizes = SIZES[tiny]
    layers: list[Any] = []
    for a, b in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(a, b), nn.ReLU()]
    rows, times = [], {backend: [] for backend in BACKENDS}  # type: ignore[var-annotated]
    variables = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        variables["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        files = {backend: Path(folder) / f"{backend}.flgraph" for backend in BACKENDS}
        for backend, path in files.items():
            with ft.use(backend):
                model = nn.Sequential(*layers[:-1])
            save(model.to(backend), (1, sizes[0]), backend, path)
        for turn in range(rounds + 2):  # the first ones make bytecode and kernels
            for backend, path in files.items():
                given = [str(path), backend, str(sizes[0]), clock]
                command = [sys.executable, "-c", START, *given]
                ran = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE)
                if turn > 1:
                    times[backend].append(json.loads(ran.stdout))
        for backend, path in files.items():
            numpy, rest = (statistics.median(each) for each in zip(*times[backend], strict=True))
            row = {"case": f"start, {backend}", "bytes of the file": path.stat().st_size}
            rows.append(row | {"import numpy, ms": numpy, "first answer after it, ms": rest})
    return rows


def warm(library: str, case: str) -> Callable[[], object]:
    """One sample of a case, on a library."""
    shape = (1, *BATCHES[case][0][1:])
    if library == "torch":
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        model, x = theirs(case).eval(), torch.ones(shape)

        def run() -> object:
            with torch.inference_mode():
                return model(x)

        return run
    import fl_tensor as ft

    ft.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with tempfile.TemporaryDirectory() as folder, ft.use(library):
        save(ours(case), shape, library, Path(folder) / "model.flgraph")
        loaded, sample = ft.load_graph(Path(folder) / "model.flgraph"), ft.ones(shape)
    return lambda: ft.eval(loaded(sample))


def samples(
    rounds: int, threads: int, clock: str, moment: float, tiny: bool
) -> list[dict[str, Any]]:
    """A row for each case: times of one sample."""
    libraries = BACKENDS if tiny else (*BACKENDS, "torch")
    rows = []
    for case in CASES[:1] if tiny else CASES:
        with ExitStack() as stack:
            workers = {
                one: stack.enter_context(Worker(one, threads, arguments=["--clock", clock]))
                for one in libraries
            }
            times = take_turns(workers, case, rounds, moment)
        row: dict[str, Any] = {"case": f"one sample, {case}"}
        row |= {f"{one}, us": 1e6 * time for one, time in times.items()}
        if not tiny:
            row["better / torch"] = min(times[one] for one in BACKENDS) / times["torch"]
        rows.append(row)
    return rows


def main() -> None:
    parser = parser_of(__doc__, 15)
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--clock", default="perf_counter", help="process_time: processor time, on a busy machine"
    )
    given = parsed(parser)
    if given.serve:
        serve(OneAtATime(lambda case: warm(given.serve, case)), getattr(time, given.clock))
        return
    rows = starts(given.rounds, given.threads, given.clock, given.tiny)
    rows += samples(given.rounds, given.threads, given.clock, given.moment, given.tiny)
    report(given, environment("numpy", "llvmlite", "torch", "fl-tensor", "fl-nn", "fl-jit"), rows)


if __name__ == "__main__":
    main()
