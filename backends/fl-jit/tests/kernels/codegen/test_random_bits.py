"""Random words are those of the contract, wherever they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_programs import check, run

import fl_tensor as ft
from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor.dtypes import float32, float64, int32, int64


def words(rank=1, steps=((1, 0),), row_axes=1):
    b = Builder(rank, row_axes)
    seed, offset = b.scalar(int64), b.scalar(int64)
    for step in steps:
        b.output(b("random_bits", seed, offset, parameter=step), "s" * (rank - 1) + "c")
    return b.program()


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5, 2**34 - 2, 2**62 - 1])
def test_every_alignment_of_the_first_word(offset):
    for count in (1, 4, 67, 40_000):
        check(words(), [], (count,), (2**63 + 12345, offset))


@pytest.mark.parametrize("machine", [target.generic, target.host])
def test_every_row_continues_where_the_last_one_ended(machine):
    for sizes in ((5, 7), (3, 64), (2, 20_000)):
        check(words(2), [], sizes, (7, 3), kernel=Kernel(words(2), machine()))
    check(words(3, row_axes=2), [], (2, 3, 5), (7, 3))


def test_elements_that_take_several_words():
    for steps in (((2, 0), (2, 1)), ((4, 0), (4, 3), (1, 0))):
        check(words(2, steps), [], (6, 29), (99, 2))


def uniform(b, seed, offset):
    bits = b("random_bits", seed, offset, parameter=(1, 0))
    bits = b("bitwise_right_shift", bits, b.constant(8, int32))
    bits = b("bitwise_and", bits, b.constant((1 << 24) - 1, int32))
    return b("multiply", b.cast(bits, float32), b.constant(2.0**-24, float32))


def test_uniform_numbers_are_the_librarys():
    b = Builder(1)
    b.output(uniform(b, b.scalar(int64), b.scalar(int64)), "c")
    generator = ft.Generator(seed=11)
    want = generator.uniform((1000,)).numpy()
    (got,) = run(b.program(), [], (1000,), (11, 0))
    np.testing.assert_array_equal(got, want)


def test_dropout_draws_one_mask_for_several_passes_over_a_row():
    """softmax(dropout(x)): the mask of the first pass is that of the last."""
    b = Builder(2)
    x, seed, offset = b.input(float32, "sc"), b.scalar(int64), b.scalar(int64)
    zero = b.constant(0.0, float32)
    kept = b("where", b("less", b.constant(0.25, float32), uniform(b, seed, offset)), x, zero)
    e = b("exp", b("subtract", kept, b.reduce("max", kept)))
    b.output(b("divide", e, b.reduce("sum", e)), "sc")
    x = np.random.default_rng(1).standard_normal((9, 101)).astype(np.float32)
    check(b.program(), [x], (9, 101), (5, 6), eps=16)


def test_words_beside_float64():
    b = Builder(1)
    seed, offset = b.scalar(int64), b.scalar(int64)
    high, low = (b("random_bits", seed, offset, parameter=(2, i)) for i in (0, 1))
    total = b("add", b.cast(high, float64), b.cast(low, float64))
    b.output(b("multiply", total, b.input(float64, "c")), "c")
    check(b.program(), [np.linspace(0, 1, 1001)], (1001,), (1, 1), eps=1)
