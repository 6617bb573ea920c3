"""A training step of every program in `examples/programs`, on `jit` and in PyTorch.

Claim: an eager step takes at most 1.6 times as long as in PyTorch, a compiled one at most as long.
Each library runs in a process of its
own with one thread, and the two take turns. A time is processor time, the lower quartile over
rounds, which a busy machine disturbs least.

    python benchmarks/programs.py [--rounds N] [--only vae pinn] [--json FILE]
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from _measure import (
    OneAtATime,
    Worker,
    environment,
    lower_quartile,
    options,
    report,
    serve,
    take_turns,
)

LIBRARIES = ("fl-nn", "fl-nn, compiled", "torch")
FOLDER = Path(__file__).resolve().parents[1] / "examples" / "programs"
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "run")
TINY = ["gaussian_process", "pinn"]
#: Steps before the first that is timed: plans are made meanwhile.
WARM = 40


def step_of(library: str, name: str) -> Callable[[], object]:
    """A warm step of a program. In PyTorch it returns when it is done; here it is evaluated."""
    import fl_tensor as ft

    sys.path.insert(0, str(FOLDER))
    if library == "torch":
        import _program_twins as twins
        import torch

        torch.set_num_threads(1)
        make = getattr(twins, name)
        step = make(importlib.import_module(name).moved) if name == "dqn" else make()
    else:
        import fl_nn as nn

        if library == "fl-nn":  # programs compile their steps
            nn.compile = lambda step: step  # type: ignore[assignment, misc]
        ours = importlib.import_module(name).program()[0]

        def step() -> None:
            ft.eval(ours())

    for _ in range(WARM):
        step()
    if library != "torch":
        ft.jit.wait()
    return step


def main() -> None:
    given = options(__doc__)
    if given.serve:
        serve(OneAtATime(lambda name: step_of(given.serve, name)), time.process_time)
        return
    libraries = LIBRARIES[:2] if given.tiny else LIBRARIES
    rows = []
    for name in given.only or (TINY if given.tiny else PROGRAMS):
        with ExitStack() as stack:
            workers = {one: stack.enter_context(Worker(one)) for one in libraries}
            times = take_turns(workers, name, given.rounds, given.moment, typical=lower_quartile)
        row = {"program": name, **{f"{one}, ms": 1e3 * time for one, time in times.items()}}
        if not given.tiny:
            row["ours / torch"] = times["fl-nn"] / times["torch"]
            row["compiled / torch"] = times["fl-nn, compiled"] / times["torch"]
        rows.append(row)
    report(given, environment("numpy", "llvmlite", "torch", "fl-tensor", "fl-nn"), rows)


if __name__ == "__main__":
    main()
