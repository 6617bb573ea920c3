"""Other processors: code for NEON is what it should be (compiled here, and looked at, not run);
narrower vectors, other pools and any number of threads compute the same."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    channels_last,
    row_major,
)
from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen import threads as kernel_threads
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.thread_pools import OwnThreads
from fl_jit.kernels.llvm import microkernel, tile
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_tensor import dtypes

NEON = Target("neoverse-n1", "+neon", 128)
STRESS = Path(__file__).parents[2] / "stress"


@pytest.fixture
def arm(monkeypatch):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    monkeypatch.setattr(target, "triple", lambda: "aarch64-unknown-linux-gnu")


@pytest.mark.parametrize("a", ["rows", "columns"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_neon_multiplies_by_lanes_and_keeps_sums_in_registers(arm, dtype, a):
    shape = tile.best(NEON)
    text = microkernel.assembly(MicroKernel(dtype, shape, a), NEON)
    listing = compile.listing(text, NEON, compile.Effort.TIDY)
    loops = [part for part in re.split(r"\n\.LBB\w+:", listing) if "fmla" in part]
    multiplied = re.findall(r"\tfmla\t(.*)", "".join(loops))
    steps = 1  # of k, in the loop
    assert len(multiplied) == steps * shape.rows * shape.vectors
    by_lane = [operands for operands in multiplied if operands.endswith("]")]
    assert len(by_lane) >= len(multiplied) / 2, "a load that repeats a number is as good"
    assert not re.findall(r"\tst[rp]\tq.*\[sp", "".join(loops)), "sums in memory"


#: Compiles all that some problems need for another processor; run in a process of its own, which
#: then has addresses of nothing.
FOR_ARM = """
import llvmlite.binding as llvm
from fl_jit.kernels import *
from fl_jit.kernels.codegen import compile, target
from fl_tensor.dtypes import float32 as f

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
neon, listings = target.Target("neoverse-n1", "+neon", 128), []

class Compiled:
    def __init__(self, text):
        listings.append(text)
    def address(self, name):
        return 4096

target.triple = lambda: "aarch64-unknown-linux-gnu"
target.host = lambda: neon
def listed(about, assembly, machine, effort=compile.Effort.FULL):
    return Compiled(compile.listing(assembly(), neon, effort))

def functions(wanted, assembly, machine, effort=compile.Effort.FULL):
    listings.append(compile.listing(assembly(list(wanted)), neon, effort))
    return dict.fromkeys(wanted, 4096)

compile.load, compile.addresses = listed, functions
from fl_jit.kernels.llvm.library import GeneratedKernels

rest = (2, 1), ((1, 1), (0, 1)), (1, 1)
x, y = channels_last(f, (2, 20, 9, 9)), channels_last(f, (2, 20, 5, 8))
wide, deep = row_major(f, (20, 20, 3, 3)), row_major(f, (20, 1, 3, 3))
library = GeneratedKernels()
for problem in (
    Matmul(row_major(f, (50, 60)), row_major(f, (60, 70)), row_major(f, (50, 70))),
    Matmul(row_major(f, (2, 99)), Layout(f, (99, 70), (1, 99)), row_major(f, (2, 70))),
    *(Convolution(x, w, y, *rest, groups) for w, groups in ((wide, 1), (deep, 20))),
    *(ConvDataGrad(y, w, x, *rest, groups) for w, groups in ((wide, 1), (deep, 20))),
    *(ConvWeightGrad(x, y, w, *rest, groups) for w, groups in ((wide, 1), (deep, 20))),
):
    assert library.find(problem), library.why_not(problem)
text = "".join(listings)
assert "fmla" in text and "zmm" not in text
print(len(listings), "modules")
"""


def test_all_that_problems_need_is_code_for_arm_too():
    ended = subprocess.run([sys.executable, "-c", FOR_ARM], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.split()[0]) > 10


def widths():
    most = target.processor().vector_bits
    return ["generic", *(str(bits) for bits in (128, 256) if bits < most)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guard pages of Linux")
@pytest.mark.parametrize("bits", widths())
def test_narrower_vectors_compute_the_same(bits):
    command = [sys.executable, str(STRESS), "--count", "60", "--seed", "5"]
    env = {**os.environ, "FL_VECTOR_BITS": bits}
    ended = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def some_problems():
    """Problems with operands, and where their results are."""
    f32, f64, rng = dtypes.float32, dtypes.float64, np.random.default_rng(0)

    def operand(layout):
        return rng.standard_normal(layout.shape).astype(str(layout.dtype)).reshape(-1)

    image, kernel, result = (9, 24, 17, 15), (40, 24, 3, 3), (9, 40, 17, 15)
    rest = (1, 1), ((1, 1), (1, 1)), (1, 1)
    last = channels_last(f32, image), row_major(f32, kernel), channels_last(f32, result)
    descriptors = [
        Matmul(row_major(f32, (150, 700)), row_major(f32, (700, 90)), row_major(f32, (150, 90))),
        Matmul(
            row_major(f64, (5, 37, 80)), row_major(f64, (1, 80, 41)), row_major(f64, (5, 37, 41))
        ),
        Convolution(*last, *rest),
        ConvDataGrad(last[2], last[1], last[0], *rest),
        ConvWeightGrad(last[0], last[2], last[1], *rest),
    ]
    return [
        (descriptor, [operand(layout) for layout in operands_of(descriptor)])
        for descriptor in descriptors
    ]


def operands_of(descriptor):
    if isinstance(descriptor, Matmul):
        return descriptor.x, descriptor.y, descriptor.out
    if isinstance(descriptor, Convolution):
        return descriptor.x, descriptor.w, descriptor.out
    if isinstance(descriptor, ConvDataGrad):
        return descriptor.gradient, descriptor.w, descriptor.out
    return descriptor.x, descriptor.gradient, descriptor.out


def computed(some_problems):
    library, found = GeneratedKernels(), []
    for descriptor, arrays in some_problems:
        arrays[-1][...] = np.nan
        kernel = library.find(descriptor)
        assert kernel is not None, library.why_not(descriptor)
        kernel(*(array.ctypes.data for array in arrays))
        assert np.isfinite(arrays[-1]).all()
        found.append(arrays[-1].tobytes())
    return found


def test_any_number_of_threads_gives_the_same_bits(some_problems, threads):
    threads(1)
    expected = computed(some_problems)
    for count in (2, 3, 8, 64):
        threads(count)
        assert computed(some_problems) == expected, f"{count} threads"


@functools.cache
def own_threads():
    """For good: they wait in machine code that must not go."""
    return OwnThreads()


def test_threads_of_our_own_do_as_well(some_problems, threads, monkeypatch):
    threads(1)
    expected = computed(some_problems)
    monkeypatch.setattr(kernel_threads, "pool", own_threads)
    for count in (2, 5):
        threads(count)
        assert computed(some_problems) == expected


def test_without_any_threads(some_problems, threads, monkeypatch):
    threads(1)
    expected = computed(some_problems)
    monkeypatch.setattr(kernel_threads, "pool", lambda: None)
    threads(4)
    assert computed(some_problems) == expected
