"""``fl-jit tune``: autotuning of the descriptors that programs have requested.

Every descriptor that other processes recorded (``kernels/workload_log.py``) is computed on zeros,
by each kernel that can.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO

from fl_jit.kernels import registry, workload_log
from fl_jit.kernels.descriptors import OpDescriptor
from fl_tensor.extend import threads

_WIDTH = 30


def main(arguments: list[str]) -> int:
    """Tune the kernels, and print a summary."""
    parser = argparse.ArgumentParser(
        prog="fl-jit tune",
        description="Measure the products and convolutions that programs asked for, and remember "
        "the fastest kernel of each. Run it on an idle machine: other work distorts the times.",
    )
    parser.add_argument("--threads", type=int, help="of an operation (default: as in programs)")
    parser.add_argument("--forget", action="store_true", help="only forget which came up")
    given = parser.parse_args(arguments)
    if given.forget:
        workload_log.forget()
        return 0
    if given.threads is not None:
        threads.set_num_threads(given.threads)
    library = registry.active_library()
    descriptors = workload_log.known()
    if library is None or not descriptors:
        print("nothing to measure: run a program with large products or convolutions first")
        return 0
    chosen = sum(bool(library.tune(descriptor)) for descriptor in bar(descriptors, sys.stderr))
    library.forget()  # the next call takes the new choices
    print(f"{len(descriptors)} operations, {chosen} with another kernel than by rule:")
    print("  fl-jit info --choices shows them")
    return 0


def bar(descriptors: Iterable[OpDescriptor], file: TextIO) -> Iterator[OpDescriptor]:
    """The descriptors, with a progress bar and the remaining time, which only a terminal shows."""
    listed = list(descriptors)
    begin = time.monotonic()
    for number, descriptor in enumerate(listed):
        if file.isatty():
            done = _WIDTH * number // len(listed)
            spent = time.monotonic() - begin
            left = f"{spent / number * (len(listed) - number):.0f} s left" if number else ""
            file.write(f"\r[{'#' * done:<{_WIDTH}}] {number} of {len(listed)} {left:<12}")
            file.flush()
        yield descriptor
    if file.isatty():
        file.write(f"\r[{'#' * _WIDTH}] {len(listed)} of {len(listed)} {'':<12}\n")
