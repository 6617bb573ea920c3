"""Other processors: code for NEON is what it should be (compiled here, and looked at, not run)."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("llvmlite")

import llvmlite.binding as llvm

from fl_tensor import dtypes
from fl_tensor.backends.providers.generated import (
    convolution_nest,
    microkernel,
    planes,
    tile,
    weights_nest,
)
from fl_tensor.backends.providers.generated.microkernel import MicroKernel
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target

NEON = Target("neoverse-n1", "+neon", 128)


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
    listing = compile.listing(text, NEON)
    loops = [part for part in re.split(r"\n\.LBB\w+:", listing) if "fmla" in part]
    multiplied = re.findall(r"\tfmla\t(.*)", "".join(loops))
    steps = microkernel.UNROLL + 1  # the loop, and what is left of k
    assert len(multiplied) == steps * shape.rows * shape.vectors
    by_lane = [operands for operands in multiplied if operands.endswith("]")]
    assert len(by_lane) >= len(multiplied) / 2, "a load that repeats a number is as good"
    assert not re.findall(r"\tst[rp]\tq.*\[sp", "".join(loops)), "sums in memory"


@pytest.mark.parametrize(
    "made",
    [
        lambda machine: convolution_nest.assembly(),
        lambda machine: weights_nest.assembly(dtypes.float32, 4, machine),
        lambda machine: planes.assembly("transposed", dtypes.float32, dtypes.float32, machine),
    ],
    ids=["convolutions", "gradients of weights", "planes"],
)
def test_loop_nests_are_code_for_arm_too(arm, made):
    assert "ret" in compile.listing(made(NEON), NEON)
