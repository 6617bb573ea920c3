"""The test double: addresses that cannot be right are errors; operands that only look like
overlapping are not."""

from __future__ import annotations

import numpy as np
import pytest
from checked_kernel import CheckedKernel, CheckedKernels, reach, share

from fl_jit.kernels import Layout, Matmul, Packed, UnsupportedError, row_major
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.descriptors import Epilogue
from fl_tensor.dtypes import float16, float32, float64
from fl_tensor.errors import ArgumentError


class Kernel:
    """Remembers what it was called with."""

    about = "remembers"

    def __init__(self, *operands):
        self.operands = operands
        self.called = []

    def __call__(self, *addresses):
        self.called.append(addresses)


def checked(x, y, out):
    kernel = Kernel(x, y, out)
    return kernel, CheckedKernel(kernel, Matmul(x, y, out))


SQUARE = row_major(float32, (8, 8))


def test_a_proper_call_goes_through():
    kernel, call = checked(SQUARE, SQUARE, SQUARE)
    call(4096, 4096, 4096 + 256)
    call(4096 + 256, 8192, 4096)
    assert kernel.called == [(4096, 4096, 4352), (4352, 8192, 4096)]
    assert call.about == "remembers" and call.operands == (SQUARE,) * 3


@pytest.mark.parametrize(
    "addresses,message",
    [
        ((4096, 8192), "2 addresses for 3 operands"),
        (
            (4098, 8192, 12288),
            r"operand 0 .* cannot be at address 0x1002: expected a multiple of 4",
        ),
        ((4096, 8192, 0), "operand 2 .* cannot be at address 0x0: there is nothing at 0"),
        ((4096, 8192, 4096), "operands 0 and 2 overlap"),
        ((4096, 8192, 4096 + 252), "operands 0 and 2 overlap"),
        ((4096, 8192, 8192 - 252), "operands 1 and 2 overlap"),
    ],
)
def test_others_are_errors(addresses, message):
    kernel, call = checked(SQUARE, SQUARE, SQUARE)
    with pytest.raises(ArgumentError, match=message):
        call(*addresses)
    assert not kernel.called


def test_halves_of_a_matrix_do_not_overlap():
    left = Layout(float32, (8, 8), (16, 1))
    kernel, call = checked(left, SQUARE, left)
    call(4096, 8192, 4096 + 32)
    assert kernel.called
    with pytest.raises(ArgumentError, match="overlap"):
        call(4096, 8192, 4096 + 28)


def test_an_epilogue_may_write_over_what_it_reads():
    b = Builder(2)
    product, beside = (b.input(float32, "sc") for _ in range(2))
    b.output(b("add", product, beside), "sc")
    b.output(b("multiply", product, beside), "sc")
    epilogue = Epilogue(b.program(), (8, 8), ((8, 1),) * 4)
    kernel = Kernel(*[SQUARE] * 5)  # x, y, what is read, out, what else is written
    call = CheckedKernel(kernel, Matmul(SQUARE, SQUARE, SQUARE, epilogue=epilogue))
    call(4096, 8192, 12288, 16384, 12288)
    assert kernel.called
    for addresses, which in (
        (
            (4096, 8192, 12288, 12288, 16384),
            "2 and 3",
        ),  # where the product is before it is complete
        ((4096, 8192, 12288, 16384, 12292), "2 and 4"),
        ((4096, 8192, 12288, 16384, 8192), "1 and 4"),
    ):
        with pytest.raises(ArgumentError, match=f"operands {which} overlap"):
            call(*addresses)


def test_operands_without_elements_may_be_anywhere():
    kernel, call = checked(
        row_major(float32, (0, 4)), row_major(float32, (4, 3)), row_major(float32, (0, 3))
    )
    call(0, 4096, 0)
    assert kernel.called


def test_strides_beyond_all_addresses_are_refused():
    for strides in ((1 << 60, 1), (-(1 << 61), 1)):
        with pytest.raises(UnsupportedError, match="more memory than there are addresses"):
            reach(Layout(float32, (3, 2), strides))
    assert reach(Layout(float32, (1, 2), (1 << 62, 1))) == (0, 8), "an axis of 1 goes nowhere"
    assert reach(Layout(float32, (3, 2), (-5, 1))) == (-40, 8)
    assert reach(Packed(float32, (3,), 320, None)) == (0, 320)


def touched(address, layout):
    shifts = np.zeros((), np.int64)
    for size, stride in zip(layout.shape, layout.strides):
        shifts = np.add.outer(shifts, np.arange(size) * stride)
    first = shifts.ravel() * layout.dtype.itemsize + address
    return set((first[:, None] + np.arange(layout.dtype.itemsize)).ravel().tolist())


def test_sharing_is_exact():
    rng = np.random.default_rng(0)
    shared = 0
    for _ in range(2000):
        operands = []
        for _ in range(2):
            rank = rng.integers(1, 4)
            dtype = (float16, float32, float64)[rng.integers(3)]
            shape = tuple(int(n) for n in rng.integers(1, 5, rank))
            strides = tuple(int(s) for s in rng.integers(-12, 13, rank))
            operands.append((int(rng.integers(0, 20)) * 8 + 4096, Layout(dtype, shape, strides)))
        (x_at, x), (y_at, y) = operands
        expected = bool(touched(x_at, x) & touched(y_at, y))
        assert share(x_at, x, y_at, y) == expected, operands
        shared += expected
    assert 200 < shared < 1800


def test_kernels_of_the_library_are_checked():
    kernel = CheckedKernels().find(Matmul(SQUARE, SQUARE, SQUARE))
    memory = np.zeros((4, 8, 8), np.float32)
    x, y, out, _ = (part.ctypes.data for part in memory)
    memory[:2] = 1
    kernel(x, y, out)
    assert (memory[2] == 8).all()
    for addresses in ((x, y, x), (x, y, y + 4), (x + 1, y, out), (x, 0, out), (x, y)):
        with pytest.raises(ArgumentError):
            kernel(*addresses)
    absurd = Layout(float32, (8, 8), (1 << 60, 1))
    assert CheckedKernels().find(Matmul(absurd, SQUARE, SQUARE)) is None
