"""What allocates beside the memory manager in a training step: an independent count of the bytes.

Claim: a manager that serves every result (`small_bytes=0`) and an independent count agree. What a
step holds beside the manager is below 1 % of the peak; temporaries inside NumPy are listed apart.

    python benchmarks/memory_bypass.py [--only alexnet bert] [--backends numpy jit] [--steps N]
        [--json FILE [--add]] [--markdown] [--tiny]

The count is made by others: on `numpy` by tracemalloc, which also traces the arrays that the
manager's memory is made of; on `jit` by the kernel, which lists resident pages by mapping
(`/proc/self/smaps`, Linux alone), and the manager's memory has a name there. A step runs before, so
that plans and kernels are made. Columns, in MB:

* `spy`: the peak of live bytes, summed up from the events of the manager
* `counted`: the peak of the count, without the bytes held before the steps
* `beside`: the most that was held beside the manager between forward pass, backward pass and update
* `temporaries`: the most that was held beside it at any time, less `beside`. On `jit` it is looked
  at when a block is allocated or freed
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import os
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
from _measure import environment, parsed, parser_of, report

import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from cases import settle
from fl_memory.managers.system import SystemManager
from models import MODELS

BACKENDS = ("numpy", "jit")
NAMES = ("alexnet", "bert")
MAPPING = "fl-counted"


class TracedMemory(mem.DeviceMemory):
    """Arrays of NumPy, which tracemalloc sees."""

    CONTRACT = (1, 0)

    def __init__(self) -> None:
        self._arrays: dict[int, np.ndarray] = {}

    def allocate(self, nbytes: int, alignment: int) -> int:
        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self._arrays[address] = array
        return address

    def release(self, address: int, nbytes: int) -> None:
        del self._arrays[address]

    def capacity(self) -> None:
        return None


class MappedMemory(mem.DeviceMemory):
    """A mapping of an unlinked file for each block, which `/proc/self/smaps` lists by name."""

    CONTRACT = (1, 0)

    def __init__(self) -> None:
        self._mappings: dict[int, mmap.mmap] = {}

    def allocate(self, nbytes: int, alignment: int) -> int:
        file = os.memfd_create(MAPPING)
        try:
            os.ftruncate(file, nbytes)
            mapping = mmap.mmap(file, nbytes)
        finally:
            os.close(file)
        address = np.frombuffer(mapping, np.uint8).ctypes.data
        self._mappings[address] = mapping
        return address

    def release(self, address: int, nbytes: int) -> None:
        self._mappings.pop(address).close()

    def capacity(self) -> None:
        return None


class Traced:
    """tracemalloc: what is allocated, and the most since the last look."""

    memory = TracedMemory

    def __enter__(self) -> Traced:
        tracemalloc.start()
        return self

    def __exit__(self, *error: object) -> None:
        tracemalloc.stop()

    def look(self) -> tuple[int, int]:
        """(bytes now, peak since the last look), of everything."""
        found = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        return found


class Resident:
    """`/proc/self/smaps`: resident bytes that are anonymous, or of the manager's mappings. Pages of
    programs and libraries do not count."""

    memory = MappedMemory

    def __enter__(self) -> Resident:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def look(self) -> tuple[int, int]:
        """(bytes now, the same) of everything; the manager's are counted as they are touched."""
        total, ours = 0, False
        with open("/proc/self/smaps") as lines:
            for line in lines:
                if "-" in line.partition(" ")[0]:
                    ours = MAPPING in line
                elif line.startswith("Rss:" if ours else "Anonymous:"):
                    total += 1024 * int(line.split()[1])
        return total, total


class Spy:
    """Sums up the events of a manager, and compares the sum with a count."""

    def __init__(self, count: Traced | Resident, live: int) -> None:
        self.count = count
        self.live = self.peak = live
        self.counted = self.beside = self.most = 0
        self.before = count.look()[0] - live

    def __call__(self, event: mem.Event) -> None:
        if event.kind == "alloc":
            self.live += event.nbytes
            self.peak = max(self.peak, self.live)
            self.look(self.live - event.nbytes)
        elif event.kind == "free":
            self.look(self.live)
            self.live -= event.nbytes

    def look(self, live: int) -> int:
        """Compare, ``live`` having been the manager's; the bytes beside it now."""
        now, peak = self.count.look()
        self.counted = max(self.counted, peak - self.before)
        self.most = max(self.most, peak - self.before - max(live, self.live))
        return now - self.before - self.live

    def between(self) -> None:
        """Look between two parts of a step."""
        gc.collect()
        self.beside = max(self.beside, self.look(self.live))


def measured(name: str, backend: str, steps: int, tiny: bool) -> dict[str, Any]:
    count: Traced | Resident = Traced() if backend == "numpy" else Resident()
    manager = SystemManager(count.memory(), small_bytes=0)
    with count, mem.use(manager):
        return measured_by(count, manager, name, backend, steps, tiny)


def measured_by(
    count: Traced | Resident,
    manager: SystemManager,
    name: str,
    backend: str,
    steps: int,
    tiny: bool,
) -> dict[str, Any]:
    ft.use(backend)
    ft.seed(0)
    chosen = MODELS[name]
    model = chosen.build(**(chosen.small if tiny else {}))
    batch = model.batch(2 if tiny else chosen.size, ft.Generator(1))
    optimizer = nn.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(between: Any) -> None:
        optimizer.zero_grad()
        loss = model.loss(batch)
        between()
        loss.backward()
        between()
        optimizer.step()
        del loss
        between()

    for _ in range(2):
        step(gc.collect)
        settle()
    spy = Spy(count, manager.stats().live_bytes)
    stop = manager.on_event(spy)
    for _ in range(steps):
        step(spy.between)
    stop()
    return {
        "model": name,
        "backend": backend,
        "spy": spy.peak / 1e6,
        "counted": spy.counted / 1e6,
        "beside": spy.beside / 1e6,
        "beside, % of peak": 100 * spy.beside / spy.peak,
        "temporaries": max(0, spy.most - spy.beside) / 1e6,
    }


def main() -> None:
    parser = parser_of(__doc__, rounds=None)
    parser.add_argument("--only", nargs="+", choices=list(MODELS))
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--measure", choices=list(MODELS), help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.measure:
        print(json.dumps(measured(given.measure, *given.backends, given.steps, given.tiny)))
        return
    rows: list[dict[str, Any]] = []
    for name in given.only or NAMES:
        for backend in given.backends:
            command = [sys.executable, __file__, "--measure", name, "--backends", backend]
            command += ["--steps", str(given.steps), *(["--tiny"] if given.tiny else [])]
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            rows.append(json.loads(found.stdout))
    report(given, environment("numpy", "fl-tensor", "fl-memory"), rows, key=("model", "backend"))


if __name__ == "__main__":
    main()
