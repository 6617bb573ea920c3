"""``fl-jit tune``: autotuning of the descriptors that programs have requested.

Every descriptor that other processes recorded (``kernels/workload_log.py``) is computed on zeros
until its kernel is chosen.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO

from fl_jit.kernels import autotune, registry, workload_log
from fl_jit.kernels.autotune import PATIENCE
from fl_jit.kernels.descriptors import OpDescriptor
from fl_jit.kernels.layout import Layout, Placement
from fl_jit.kernels.library import Kernel
from fl_memory import selection
from fl_tensor.extend import threads

_WIDTH = 30


def main(arguments: list[str]) -> int:
    """Tune the kernels, and print a summary."""
    parser = argparse.ArgumentParser(
        prog="fl-jit tune",
        description="Measure the products and convolutions that programs asked for, and remember "
        "the fastest kernel of each. Do so when nothing else runs: a choice made beside other work "
        "is by chance.",
    )
    parser.add_argument("--threads", type=int, help="of an operation (default: as in programs)")
    parser.add_argument("--forget", action="store_true", help="only forget which came up")
    given = parser.parse_args(arguments)
    if given.forget:
        workload_log.forget()
        return 0
    if given.threads is not None:
        threads.set_num_threads(given.threads)
    provider = registry.active_library()
    found = workload_log.known()
    if provider is None or not found:
        print("nothing to measure: run a program with large products or convolutions first")
        return 0
    chosen = 0
    provider.forget()
    with autotune.thoroughly():
        for problem in bar(found, sys.stderr):
            kernel = provider.find(problem)
            before = kernel and kernel.about
            if kernel is not None:
                call(kernel)
                chosen += kernel.about != before
    print(f"{len(found)} problems, {chosen} with another kernel than by rule:")
    print("  fl-jit info --choices shows them")
    return 0


def bar(problems: Iterable[OpDescriptor], file: TextIO) -> Iterator[OpDescriptor]:
    """The descriptors, with a progress bar and the remaining time, which only a terminal shows."""
    listed = list(problems)
    begin = time.monotonic()
    for number, problem in enumerate(listed):
        if file.isatty():
            done = _WIDTH * number // len(listed)
            spent = time.monotonic() - begin
            left = f"{spent / number * (len(listed) - number):.0f} s left" if number else ""
            file.write(f"\r[{'#' * done:<{_WIDTH}}] {number} of {len(listed)} {left:<12}")
            file.flush()
        yield problem
    if file.isatty():
        file.write(f"\r[{'#' * _WIDTH}] {len(listed)} of {len(listed)} {'':<12}\n")


def call(kernel: Kernel) -> None:
    """Call ``kernel`` until it is chosen, on operands that are all 0."""
    blocks = []
    addresses = []
    for placement in kernel.operands:
        before, nbytes = _span(placement)
        blocks.append(selection.current().alloc(nbytes))
        ctypes.memset(blocks[-1].address, 0, nbytes)
        addresses.append(blocks[-1].address + before)
    try:
        for _ in range(PATIENCE):
            kernel(*addresses)
    finally:
        for block in blocks:
            block.free()


def _span(placement: Placement) -> tuple[int, int]:
    # The bytes before the first element, where a stride is negative, and of all elements.
    if not isinstance(placement, Layout) or placement.strides is None:
        return 0, placement.nbytes
    steps = [(n - 1) * s for n, s in zip(placement.shape, placement.strides, strict=True)]
    before, after = -sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    size = placement.dtype.itemsize
    return before * size, (before + 1 + after) * size
