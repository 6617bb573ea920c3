"""How long a shape of a product or convolution takes that the generated kernels have not seen.

Claims: at most 100 ms where machine code has to be made, the first shape of a kind with an empty
cache included, and at most 10 ms where its micro-kernels are there.

What is timed is `prepare`, by the clock, of four shapes. The first three are in a process that
begins with an empty cache: the first one of its kind; one with micro-kernels of other sizes; one
that needs none. The last is the first one again, in a new process that finds files. `compiled` are
the modules that LLVM was given for each. Medians over processes; LLVM was in use before.

    python benchmarks/shape_latency.py [--only product forward] [--rounds 5] [--json FILE]
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
from typing import Any

from _measure import environment, parsed, parser_of, report

import fl_tensor as ft
from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    OpDescriptor,
    channels_last,
    row_major,
)

STATES = ("first ms", "new micro-kernels ms", "known micro-kernels ms", "from files ms")
KINDS = (
    *("product", "product by columns", "forward", "data", "weights"),
    *("depthwise forward", "depthwise data", "depthwise weights"),
)
#: Sizes of a product (m, k, n), and of a convolution: images, channels, features, pixels each way.
PRODUCTS = ((512, 768, 300), (525, 768, 313), (512, 704, 300))
CONVOLUTIONS = ((2, 64, 96, 28), (2, 77, 109, 41), (3, 64, 96, 28))


def problem_of(kind: str, number: int) -> OpDescriptor:
    """Shape ``number`` of a kind, 3 x 3 with padding if it is a convolution. The second factor of a
    product may lie by columns, as weights of a layer do."""
    f32 = ft.float32
    if kind.startswith("product"):
        m, k, n = PRODUCTS[number]
        y = row_major(f32, (k, n))
        y = y if kind == "product" else y._replace(strides=(1, k))
        return Matmul(row_major(f32, (m, k)), y, row_major(f32, (m, n)))
    batch, channels, features, size = CONVOLUTIONS[number]
    *depthwise, which = kind.split()
    groups = channels if depthwise else 1
    features = channels if depthwise else features
    x, out = (channels_last(f32, (batch, c, size, size)) for c in (channels, features))
    w = row_major(f32, (features, channels // groups, 3, 3))
    options = (1, 1), ((1, 1), (1, 1)), (1, 1), groups
    if which == "forward":
        return Convolution(x, w, out, *options)
    if which == "data":
        return ConvDataGrad(out, w, x, *options)
    return ConvWeightGrad(x, out, w, *options)


def serve(kind: str, numbers: list[int]) -> None:
    """Prepare shapes in this process, and say how long each took."""
    from fl_jit.kernels.codegen import compile, target
    from fl_jit.kernels.llvm.library import GeneratedKernels

    target.initialize()
    text = f'target triple = "{target.triple()}"\ndefine void @nothing() {{ ret void }}'
    for effort in compile.Effort:
        code = compile.compiled(text, target.host(), effort)
        compile.Code(code, target.host()).address("nothing")
    compiled = compile.compiled
    count = 0

    def counted(*arguments: Any, **options: Any) -> bytes:
        nonlocal count
        count += 1
        return compiled(*arguments, **options)

    compile.compiled = counted
    library = GeneratedKernels()
    found = []
    for number in numbers:
        descriptor, count = problem_of(kind, number), 0
        start = time.perf_counter()
        library.prepare(descriptor)
        found.append((1e3 * (time.perf_counter() - start), count))
    print(json.dumps(found))


def run(kind: str, numbers: list[int], folder: str) -> list[tuple[float, int]]:
    """What ``serve`` finds in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--serve", json.dumps([kind, numbers])],
        env={**os.environ, "FL_CACHE_DIR": folder},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [tuple(each) for each in json.loads(done.stdout.splitlines()[-1])]


def row_of(kind: str, rounds: int) -> dict[str, Any]:
    taken = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="fl-latency-") as folder:
            taken.append([*run(kind, [0, 1, 2], folder), *run(kind, [0], folder)])
    row: dict[str, Any] = {"kind": kind}
    for state, each in zip(STATES, zip(*taken, strict=True), strict=True):
        row[state] = statistics.median(ms for ms, _ in each)
    row["compiled"] = ", ".join(str(count) for _, count in taken[0])
    return row


def main() -> None:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("--only", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parsed(parser)
    if given.serve:
        serve(*json.loads(given.serve))
        return
    kinds = given.only[:1] if given.tiny else given.only
    rows = [row_of(kind, given.rounds) for kind in kinds]
    report(given, environment("llvmlite", "fl-tensor"), rows)


if __name__ == "__main__":
    main()
