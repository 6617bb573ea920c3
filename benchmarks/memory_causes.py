"""Which share of the allocated bytes `fl_memory.observe` names: training steps of the paper models.

Claim: at least 95 % by operation and 90 % by module, in the forward and in the backward pass, on
`numpy` and on `jit`.

    python benchmarks/memory_causes.py [--only alexnet resnet50 bert] [--backends numpy jit]
        [--steps N] [--json FILE [--add]] [--markdown] [--tiny]

The first step is not observed: `jit` makes its plans there. Each model and backend has a process of
its own. "missed" is the largest sum without a module: its operation and its share of the phase.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from _measure import environment, parsed, parser_of, report

import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from models import MODELS

PHASES = ("forward", "backward", "update")
BACKENDS = ("numpy", "jit")
NAMES = ("alexnet", "resnet50", "bert")


def observed_steps(name: str, backend: str, steps: int, tiny: bool) -> list[dict[str, Any]]:
    """A row for each phase, and one of all."""
    ft.use(backend)
    ft.seed(0)
    chosen = MODELS[name]
    model = chosen.build(**(chosen.small if tiny else {}))
    batch = model.batch(2 if tiny else chosen.size, ft.Generator(1))
    optimizer = nn.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        model.loss(batch).backward()
        optimizer.step()

    step()
    with mem.use(type(mem.current())(small_bytes=0)), mem.observe() as seen:
        for number in range(steps):
            mem.mark("step", number)
            step()
    usages = seen.allocated("phase", "operation", "module")
    rows = []
    for phase in (*PHASES, "all"):
        found = [usage for usage in usages if phase in (usage.key[0], "all")]
        total = sum(usage.nbytes for usage in found) or 1
        missed = [u for u in found if not u.key[2] and u.nbytes > total / 1000][:1]
        rows.append(
            {
                "model": name,
                "backend": backend,
                "phase": phase,
                "MB a step": total / steps / 1e6,
                "operation, %": 100 * sum(u.nbytes for u in found if u.key[1]) / total,
                "module, %": 100 * sum(u.nbytes for u in found if u.key[2]) / total,
                "missed": "".join(f"{u.key[1]} {100 * u.nbytes / total:.1f} %" for u in missed),
            }
        )
    return rows


def main() -> None:
    parser = parser_of(__doc__, rounds=None)
    parser.add_argument("--only", nargs="+", choices=list(MODELS))
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--observe", choices=list(MODELS), help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.observe:
        print(json.dumps(observed_steps(given.observe, *given.backends, given.steps, given.tiny)))
        return
    rows: list[dict[str, Any]] = []
    for name in given.only or NAMES:
        for backend in given.backends:
            command = [sys.executable, __file__, "--observe", name, "--backends", backend]
            command += ["--steps", str(given.steps), *(["--tiny"] if given.tiny else [])]
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            rows += json.loads(found.stdout)
    about = environment("numpy", "fl-tensor", "fl-memory")
    report(given, about, rows, key=("model", "backend", "phase"))


if __name__ == "__main__":
    main()
