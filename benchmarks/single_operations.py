"""Single operations on a million elements: sorting, selecting, counting, sums, copies, products.

Claim: on ``jit`` each takes at most twice PyTorch's time, products of integers three times. Times
are processor time of one thread, or with ``--threads 2`` wall-clock time on an idle machine.
"numpy" is NumPy's own function for the same task, to the extent that it has one.

    python benchmarks/single_operations.py [--rounds 15] [--only histogram] [--threads 1]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias

from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns

Call: TypeAlias = Callable[[], object]
SIZE = 1_000_000

#: What is computed, from the arrays of ``arrays``.
OURS: dict[str, Callable[[Any, Any], object]] = {
    "histogram of 100 bins": lambda ft, a: ft.histogram(a.x, 100)[0],
    "topk of a vector": lambda ft, a: ft.topk(a.x, 100)[0],
    "topk of rows": lambda ft, a: ft.topk(a.square, 10)[0],
    "transpose + copy": lambda ft, a: ft.reshape(a.square.T, (-1,)),
    "permute + copy": lambda ft, a: ft.reshape(ft.permute(a.cube, (2, 1, 0)), (-1,)),
    "permute + copy of images": lambda ft, a: ft.reshape(ft.permute(a.images, (0, 2, 3, 1)), (-1,)),
    "product of int64": lambda ft, a: a.long_factor @ a.long_factor,
    "product of int32": lambda ft, a: a.int_factor @ a.int_factor,
    "cumulative sum": lambda ft, a: ft.cumulative_sum(a.x),
    "cumulative sum of rows": lambda ft, a: ft.cumulative_sum(a.square, axis=1),
    "cumulative sum of columns": lambda ft, a: ft.cumulative_sum(a.square, axis=0),
    "cumulative sum of int64": lambda ft, a: ft.cumulative_sum(a.labels),
    "unique int64": lambda ft, a: ft.unique(a.labels),
    "unique float32": lambda ft, a: ft.unique(a.x),
    "median": lambda ft, a: ft.median(a.x),
    "median of rows": lambda ft, a: ft.median(a.square, axis=1),
    "randn": lambda ft, a: ft.randn((SIZE,)),
    "bincount": lambda ft, a: ft.bincount(a.labels),
    "inverse of 6 x 6": lambda ft, a: ft.linalg.inv(a.matrices),
}
THEIRS: dict[str, Callable[[Any, Any], object]] = {
    "histogram of 100 bins": lambda torch, a: torch.histogram(a.x, 100)[0],
    "topk of a vector": lambda torch, a: torch.topk(a.x, 100)[0],
    "topk of rows": lambda torch, a: torch.topk(a.square, 10)[0],
    "transpose + copy": lambda torch, a: a.square.T.reshape(-1),
    "permute + copy": lambda torch, a: a.cube.permute(2, 1, 0).reshape(-1),
    "permute + copy of images": lambda torch, a: a.images.permute(0, 2, 3, 1).reshape(-1),
    "product of int64": lambda torch, a: a.long_factor @ a.long_factor,
    "product of int32": lambda torch, a: a.int_factor @ a.int_factor,
    "cumulative sum": lambda torch, a: a.x.cumsum(0),
    "cumulative sum of rows": lambda torch, a: a.square.cumsum(1),
    "cumulative sum of columns": lambda torch, a: a.square.cumsum(0),
    "cumulative sum of int64": lambda torch, a: a.labels.cumsum(0),
    "unique int64": lambda torch, a: a.labels.unique(),
    "unique float32": lambda torch, a: a.x.unique(),
    "median": lambda torch, a: a.x.median(),
    "median of rows": lambda torch, a: a.square.median(1)[0],
    "randn": lambda torch, a: torch.randn(SIZE),
    "bincount": lambda torch, a: torch.bincount(a.labels),
    "inverse of 6 x 6": lambda torch, a: torch.linalg.inv(a.matrices),
}
NUMPYS: dict[str, Callable[[Any, Any], object]] = {
    "histogram of 100 bins": lambda np, a: np.histogram(a.x, 100)[0],
    "topk of a vector": lambda np, a: np.sort(np.partition(a.x, -100)[-100:]),
    "topk of rows": lambda np, a: np.sort(np.partition(a.square, -10)[:, -10:]),
    "transpose + copy": lambda np, a: a.square.T.reshape(-1),
    "permute + copy": lambda np, a: a.cube.transpose(2, 1, 0).reshape(-1),
    "permute + copy of images": lambda np, a: a.images.transpose(0, 2, 3, 1).reshape(-1),
    "product of int64": lambda np, a: a.long_factor @ a.long_factor,
    "product of int32": lambda np, a: a.int_factor @ a.int_factor,
    "cumulative sum": lambda np, a: a.x.cumsum(),
    "cumulative sum of rows": lambda np, a: a.square.cumsum(1),
    "cumulative sum of columns": lambda np, a: a.square.cumsum(0),
    "cumulative sum of int64": lambda np, a: a.labels.cumsum(),
    "unique int64": lambda np, a: np.unique(a.labels),
    "unique float32": lambda np, a: np.unique(a.x),
    "median": lambda np, a: np.median(a.x),
    "median of rows": lambda np, a: np.median(a.square, 1),
    "randn": lambda np, a: np.random.default_rng(0).standard_normal(SIZE, np.float32),
    "bincount": lambda np, a: np.bincount(a.labels),
    "inverse of 6 x 6": lambda np, a: np.linalg.inv(a.matrices),
}


class Arrays:
    """The operands, made by ``of`` from NumPy's arrays."""

    def __init__(self, of: Callable[[Any], Any], side: int) -> None:
        import numpy as np

        rng = np.random.default_rng(0)
        count = side * side
        x = rng.standard_normal(count, np.float32)
        self.x, self.square = of(x), of(x.reshape(side, side))
        edge = round(count ** (1 / 3))
        self.cube = of(x[: edge**3].reshape(edge, edge, edge))
        width = math.isqrt(count // 64)
        self.images = of(x[: 64 * width**2].reshape(4, 16, width, width))
        self.labels = of(rng.integers(0, 1000, count))
        half = side // 2
        factor = rng.integers(-100, 100, (half, half))
        self.long_factor, self.int_factor = of(factor), of(factor.astype(np.int32))
        eye = 3 * np.eye(6, dtype=np.float32)
        self.matrices = of(x[: count // 36 * 36].reshape(-1, 6, 6) + eye)


def calls_of(library: str, threads: int, tiny: bool) -> OneAtATime:
    """The cases of a library."""
    side = 16 if tiny else 1000
    if library == "torch":
        import torch

        torch.set_num_threads(threads)
        of: Callable[[Any], Any] = torch.from_numpy
        module: Any = torch
        table = THEIRS
    elif library == "numpy":
        import numpy

        module, table = numpy, NUMPYS

        def of(array: Any) -> Any:
            return array
    else:
        import fl_tensor

        fl_tensor.use("numpy" if library == "ours on numpy" else "jit")
        fl_tensor.set_num_threads(threads)
        module, table, of = fl_tensor, OURS, fl_tensor.asarray
    arrays = Arrays(of, side)

    def make(case: str) -> Call:
        compute = table[case.replace("_", " ")]
        if table is not OURS:
            return lambda: compute(module, arrays)

        def run() -> object:
            made = compute(module, arrays)
            module.eval(made)
            return made

        for _ in range(5):  # plans are made for what comes again
            run()
        return run

    return OneAtATime(make)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART_OF_A_CASE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--serve", metavar="LIBRARY", help="for a worker")
    given = parsed(parser)
    if given.serve:
        clock = time.process_time if given.threads == 1 else time.perf_counter
        serve(calls_of(given.serve, given.threads, given.tiny), clock)
        return
    libraries = ["ours"] if given.tiny else ["ours", "ours on numpy", "torch", "numpy"]
    threads = str(given.threads)
    rows = []
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(
                Worker(
                    name,
                    given.threads,
                    tiny=given.tiny,
                    arguments=["--threads", threads],
                    FL_JIT_BACKGROUND="0",
                )
            )
            for name in libraries
        }
        for case in OURS:
            if not any(part in case for part in given.only):
                continue
            seconds = take_turns(workers, case.replace(" ", "_"), given.rounds, given.moment)
            row: dict[str, Any] = {"case": case}
            row |= {f"{name}, ms": 1e3 * seconds[name] for name in workers}
            if "torch" in seconds:
                row["ours / torch"] = seconds["ours"] / seconds["torch"]
                row["ours on numpy / numpy"] = seconds["ours on numpy"] / seconds["numpy"]
            rows.append(row)
    about = environment("numpy", "torch", "llvmlite", "fl-tensor")
    report(given, {**about, "threads": given.threads, "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
