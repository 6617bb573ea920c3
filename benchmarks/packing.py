"""What a training step of the six models spends on packing its weights, and could save at most if
they were kept packed: the reason for what `docs/jit.md` says of weights that are trained.

The descriptors of a step are those that its plan passes to the kernel library. Those with weights
are timed alone, on one thread, by the time that it computes, with weights that come from memory as
in a step:

    packing    what packs, alone, and into memory where kernels pack into caches: bytes of weights
               in a second, and percent of the step
    saved      the kernel as the step calls it, less the same kernel on weights that were packed
               before (a gradient of weights: written as its kernel likes it best); of the step

A model is the sum of its problems. What only one pass would save is what another layout can bring.

    python benchmarks/packing.py [--only bert vit] [--rounds 7] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from _measure import environment, parsed, parser_of, report, timed

import fl_nn as nn
import fl_tensor as ft
from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Kernel,
    KernelLibrary,
    Matmul,
    OpDescriptor,
    Reorder,
    any_layout,
    registry,
)
from models import MODELS
from models.training import LR, MOMENTUM, batch_of

#: Bytes of weights that are gone through before the first ones come again: more than caches hold.
_COLD = 96 << 20
_ALIGNMENT = 64


class DispatchLog:
    """A kernel library that counts the calls of its kernels by descriptor."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library
        #: By type as well: descriptors of different types can have equal fields.
        self.counts: Counter[tuple[type, OpDescriptor]] = Counter()

    def find(self, descriptor: OpDescriptor) -> Kernel | None:
        kernel = self._library.find(descriptor)
        return None if kernel is None else CountedKernel(kernel, descriptor, self.counts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


class CountedKernel:
    """A kernel that counts its calls."""

    def __init__(
        self, kernel: Kernel, descriptor: OpDescriptor, counts: Counter[tuple[type, OpDescriptor]]
    ) -> None:
        self.operands, self.about = kernel.operands, kernel.about
        self._kernel, self._key, self._counts = kernel, (type(descriptor), descriptor), counts

    def __call__(self, *addresses: int) -> None:
        self._counts[self._key] += 1
        self._kernel(*addresses)


def step_of(name: str, given: argparse.Namespace) -> Callable[[], float]:
    """A training step of a model."""
    model = MODELS[name]
    settings = model.small if given.tiny else {}
    built = model.build(**settings)
    optimizer = nn.SGD(built.parameters(), lr=LR, momentum=MOMENTUM)
    batch = batch_of(model, settings, 2 if given.tiny else model.size)

    def step() -> float:
        optimizer.zero_grad()
        loss = built.loss(batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def descriptors_of(
    name: str, given: argparse.Namespace
) -> tuple[Counter[tuple[type, OpDescriptor]], float]:
    """The descriptors of a step, and the seconds that it takes."""
    current = registry.active_library
    log = DispatchLog(current())
    registry.active_library = lambda: log
    try:
        step = step_of(name, given)
        for _ in range(3):  # by then there is a plan, and weights lie as a step leaves them
            step()
        ft.jit.wait()
        step()
        log.counts.clear()
        step()
        counts = Counter(log.counts)
        seconds = [timed(step, 1, time.thread_time) for _ in range(given.rounds)]
    finally:
        registry.active_library = current
    return counts, statistics.median(seconds)


def weights_of(descriptor: OpDescriptor) -> tuple[str, str] | None:
    """The pass of a problem with weights, and the field that says how they lie. A gradient of the
    weights of a product has none: its second factor is the input."""
    if isinstance(descriptor, Matmul):
        x, y = descriptor.x, descriptor.y
        is_batch = any(n > 1 for n in y.shape[:-2])
        if is_batch or x.strides[-1] != 1 < x.shape[-1]:
            return None
        return ("products, data" if y.strides[-1] == 1 else "products, forward"), "y"
    if isinstance(descriptor, Convolution):
        turned = descriptor.w.strides[0] == 1 < descriptor.w.shape[1]
        return ("convolutions, data" if turned else "convolutions, forward"), "w"
    if isinstance(descriptor, ConvDataGrad):
        return "convolutions, data", "w"
    return ("convolutions, weights", "out") if isinstance(descriptor, ConvWeightGrad) else None


def aligned(nbytes: int) -> np.ndarray:
    made = np.full(nbytes + _ALIGNMENT, 0, np.uint8)
    return made[-made.ctypes.data % _ALIGNMENT :][:nbytes]


def call(kernel: Kernel, place: int, tiny: bool) -> Callable[[], None]:
    """A kernel on operands of its own, of which the one at ``place`` is another in each call."""
    memory = [aligned(operand.nbytes) for operand in kernel.operands]
    addresses = [each.ctypes.data for each in memory]
    count = 1 if tiny else -(-_COLD // len(memory[place]))
    many = [memory[place], *(aligned(len(memory[place])) for _ in range(min(count, 256) - 1))]
    turns = itertools.cycle(each.ctypes.data for each in many)

    def run() -> None:
        addresses[place] = next(turns)
        kernel(*addresses)

    run.memory = memory, many  # type: ignore[attr-defined]
    return run


def times_of(descriptor: OpDescriptor, field: str, given: argparse.Namespace) -> dict[str, float]:
    """Seconds of a problem as it is (``plain``), with packed weights, and of packing alone; what
    there is of these."""
    library = registry.active_library()
    layout, place = getattr(descriptor, field), {"out": -1}.get(field, 1)
    plain = library.find(descriptor)
    liked = library.find(descriptor._replace(**{field: any_layout(layout.dtype, layout.shape)}))
    packs = field == "w" or (field == "y" and "pack" in plain.about.split())
    kernels = {"plain": plain}
    if liked is not None:
        kernels["packed"] = liked
        pack = library.find(Reorder(layout, liked.operands[place])) if packs else None
        kernels |= {"packing": pack} if pack else {}
    calls = {n: call(k, 0 if n == "packing" else place, given.tiny) for n, k in kernels.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for run in calls.values():
        run()
    for _ in range(given.rounds):
        for name, run in calls.items():
            times[name].append(timed(run, 1, time.thread_time))
    return {name: statistics.median(found) for name, found in times.items()}


def measured(name: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of a model, one for each pass."""
    counts, step = descriptors_of(name, given)
    sums: dict[str, Counter[Any]] = {}  # seconds, and bytes
    for (_, descriptor), count in counts.items():
        if found := weights_of(descriptor):
            which, field = found
            times = times_of(descriptor, field, given)
            total = sums.setdefault(which, Counter())
            total["saved"] += count * (times["plain"] - times.get("packed", times["plain"]))
            if "packing" in times:
                total["packing"] += count * times["packing"]
                total["bytes"] += count * getattr(descriptor, field).nbytes
    return [
        {
            "pass": f"{name}, {which}",
            "step, ms": 1e3 * step,
            "packed, MB": total["bytes"] / 1e6,
            "packing, GB/s": total["bytes"] / total["packing"] / 1e9 if total["packing"] else "",
            "packing, %": 100 * total["packing"] / step,
            "saved, %": 100 * total["saved"] / step,
        }
        for which, total in sorted(sums.items())
    ]


def main() -> None:
    parser = parser_of(__doc__, rounds=7)
    parser.add_argument("--only", nargs="+", default=list(MODELS), choices=list(MODELS))
    given = parsed(parser)
    ft.set_num_threads(1)
    ft.use("jit")
    rows = []
    for name in given.only:
        rows += measured(name, given)
        print(name, file=sys.stderr)
    report(given, environment("numpy", "llvmlite", "fl-tensor"), rows)


if __name__ == "__main__":
    main()
