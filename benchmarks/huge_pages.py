"""Training steps whose large blocks lie in huge pages of 2 MiB, or in pages of 4 KiB.

No claim: `HostMemory` requests huge pages for blocks of 4 MiB and more, and this says what that is
worth.

    python benchmarks/huge_pages.py [--rounds N] [--json FILE] [--markdown] [--tiny]

A perceptron trains on `numpy`; its activations have 32 MB. Each run is a process of its own, and
the two kinds of pages take turns. `faults` are minor page faults of a step, `system` the CPU
seconds of a step in the kernel, `CPU` all CPU seconds: medians over the rounds. The manager
`system` gets each block from the device, `caching` reuses them. Linux alone, where transparent huge
pages are "madvise" or "always".
"""

from __future__ import annotations

import argparse
import ctypes
import json
import resource
import statistics
import subprocess
import sys
from typing import Any

from _measure import environment, parsed, parser_of, report

import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft

MANAGERS = ("system", "caching")
PAGES = ("2 MiB", "4 KiB")
#: PR_SET_THP_DISABLE of <linux/prctl.h>: no huge pages for this process, whoever asks.
THP_DISABLE = 41


def train(manager: str, pages: str, steps: int, size: int) -> dict[str, float]:
    """Figures of a step in this process: the mean over ``steps``, after two others."""
    if pages == "4 KiB" and ctypes.CDLL(None).prctl(THP_DISABLE, 1, 0, 0, 0):
        raise SystemExit("this kernel cannot switch huge pages off for a process")
    with mem.use(manager), ft.use("numpy"):
        model = nn.Sequential(nn.Linear(size, 4 * size), nn.ReLU(), nn.Linear(4 * size, size))
        optimizer = nn.SGD(model.parameters(), lr=0.01)
        x = ft.randn((2 * size, size))

        def step() -> None:
            optimizer.zero_grad()
            ft.mean(model(x) ** 2).backward()
            optimizer.step()

        step()
        step()
        before = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(steps):
            step()
        after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    return {
        "faults": (after.ru_minflt - before.ru_minflt) / steps,
        "system, s": system / steps,
        "CPU, s": (system + after.ru_utime - before.ru_utime) / steps,
    }


def in_process(manager: str, pages: str, given: argparse.Namespace) -> dict[str, float]:
    """``train`` in a fresh process."""
    command = [sys.executable, sys.argv[0], "--train", json.dumps([manager, pages])]
    command += ["--tiny"] * given.tiny
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{manager}, {pages}: {run.stderr}")
    return dict(json.loads(run.stdout))


def main() -> None:
    parser = parser_of(__doc__, rounds=7)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.train:
        steps, size = (1, 32) if given.tiny else (5, 1024)
        print(json.dumps(train(*json.loads(given.train), steps, size)))
        return
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(given.rounds):
        for manager in MANAGERS:
            for pages in PAGES:
                found.setdefault((manager, pages), []).append(in_process(manager, pages, given))
    rows: list[dict[str, Any]] = [
        {
            "manager": manager,
            "pages": pages,
            **{name: statistics.median(run[name] for run in runs) for name in runs[0]},
        }
        for (manager, pages), runs in found.items()
    ]
    report(given, environment("numpy", "fl-memory", "fl-tensor"), rows, key=("manager", "pages"))


if __name__ == "__main__":
    main()
