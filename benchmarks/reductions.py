"""Sums, means, variances and deviations over each axis: how fast, and how accurate.

Claim: errors of sums, means and deviations are at most 4 times PyTorch's. They are the largest
relative errors of float32 results over three seeds, of random numbers in [0, 1), for 100,000 x 4 of
numbers around 1e4 with a deviation of 0.3. A ratio counts errors below half a unit in the last
place, which is what rounding costs, as that. ``jit`` makes a kernel for every case. Times are
processor time of one thread. ``--before PYTHON`` measures the packages of that interpreter, too.

    python benchmarks/reductions.py [--rounds 15] [--only 1000000x8-sum-0] [--before PYTHON]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns

OPERATIONS = ("sum", "mean", "var", "std")
#: Shapes, and the axis that is reduced.
SPACES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1_000_000, 8), 0),
    ((1_000_000, 8), 1),
    ((8, 1_000_000), 0),
    ((8, 1_000_000), 1),
    ((20_000_000, 2), 0),
    ((64, 5000, 24), 1),
    ((100_000, 4), 0),
)
#: The shape whose numbers have a large mean.
LARGE_MEAN = (100_000, 4)
SEEDS = 3
ROUNDING = 2.0**-24


def cases() -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Name -> operation, shape, axis."""
    return {
        f"{'x'.join(map(str, shape))}-{operation}-{axis}": (operation, shape, axis)
        for shape, axis in SPACES
        for operation in OPERATIONS
    }


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(seed)
    if shape == LARGE_MEAN:
        return (1e4 + 0.3 * rng.standard_normal(shape)).astype(np.float32)
    return rng.random(shape, np.float32)


def caller(library: str) -> Callable[[Any, str, int], Callable[[], Any]]:
    """From an array, an operation and an axis to a call of it."""
    if library == "torch":
        import torch

        torch.set_num_threads(1)

        def torch_call(x: Any, operation: str, axis: int) -> Callable[[], Any]:
            t = torch.from_numpy(x)
            options = {"correction": 0} if operation in ("var", "std") else {}
            return lambda: getattr(t, operation)(axis, **options)

        return torch_call

    if library == "numpy":
        return lambda x, operation, axis: lambda: getattr(x, operation)(axis)

    import fl_tensor as ft

    ft.use("numpy" if library.startswith("ours on numpy") else "jit")
    ft.set_num_threads(1)

    def call(x: Any, operation: str, axis: int) -> Callable[[], Any]:
        y = ft.asarray(x)

        def run() -> Any:
            made = getattr(ft, operation)(y, axis=axis)
            ft.eval(made)
            return made

        return run

    return call


def calls_of(library: str, tiny: bool) -> OneAtATime:
    """The cases of a library, and beside each its error: ``CASE-error``."""
    import numpy as np

    known, call = cases(), caller(library)

    def error(operation: str, shape: tuple[int, ...], axis: int) -> float:
        worst = 0.0
        for seed in range(1 if tiny else SEEDS):
            x = numbers(shape, seed)
            want = getattr(x.astype(np.float64), operation)(axis)
            got = np.asarray(call(x, operation, axis)(), np.float64)
            worst = max(worst, float(np.max(np.abs(got - want) / want)))
        return worst

    def make(name: str) -> Callable[[], object]:
        case = name.removesuffix("-error")
        operation, shape, axis = known[case]
        if tiny:
            shape = tuple(min(n, 64) for n in shape)
        if name.endswith("-error"):
            found = error(operation, shape, axis)
            return lambda: found
        return call(numbers(shape, 0), operation, axis)

    return OneAtATime(make)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    parser.add_argument("--before", metavar="PYTHON", help="an interpreter with older packages")
    parser.add_argument("--serve", metavar="LIBRARY", help="for a worker")
    given = parsed(parser)
    if given.serve:
        serve(calls_of(given.serve, given.tiny), time.process_time)
        return
    kernels = {"FL_JIT_COMPILE_AFTER": "1", "FL_JIT_BACKGROUND": "0"}
    libraries = ["ours"] if given.tiny else ["ours", "ours on numpy", "torch", "numpy"]
    rows = []
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(name, 1, tiny=given.tiny, **kernels))
            for name in libraries
        }
        if given.before:
            older = Worker("ours", 1, tiny=given.tiny, python=given.before, **kernels)
            workers["before"] = stack.enter_context(older)
        for case in given.only or cases():
            seconds = take_turns(workers, case, given.rounds, given.moment)
            errors = {name: workers[name].value(f"{case}-error") for name in workers}
            row: dict[str, Any] = {"case": case, "ours, ms": 1e3 * seconds["ours"]}
            row |= {f"{n} / ours": seconds[n] / seconds["ours"] for n in workers if n != "ours"}
            row |= {"error": errors["ours"]}
            row |= {
                f"error, ours / {n}": max(errors["ours"], ROUNDING) / max(errors[n], ROUNDING)
                for n in workers
                if n != "ours"
            }
            rows.append(row)
    about = environment("numpy", "torch", "llvmlite", "fl-tensor")
    report(given, {**about, "threads": 1, "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
