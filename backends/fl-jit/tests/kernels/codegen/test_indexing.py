"""Operands that an index walks through: gather, and what is added to."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_programs import check, numbers, run

from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor.dtypes import bfloat16, float32, float64, int32, int64
from fl_tensor.dtypes import bool as boolean

DTYPES = [boolean, int32, bfloat16, float32, float64]


def indices(dtype, shape, size):
    return np.random.default_rng(4).integers(0, size, shape).astype(dtype.name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", [int32, int64], ids=str)
def test_rows_of_a_table(dtype, kind):
    b = Builder(2)
    row = b.gather(b.input(kind, "s."), dtype, ".c")
    b.output(row, "sc")
    b.output(b.reduce("max", row), "s.")
    program = b.program()
    for rows, columns in ((1, 1), (5, 7), (40, 100)):
        table = numbers(dtype, np.random.default_rng(1), (11, columns))
        check(program, [indices(kind, (rows, 1), 11), table.T[None]], (rows, columns))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_index_for_every_element(dtype):
    """Along the last axis of the same row, as take_along_axis; and from one list for all."""
    b = Builder(2)
    index = b.input(int64, "sc")
    b.output(b.gather(index, dtype, "s."), "sc")
    b.output(b.gather(index, dtype, ".."), "sc")
    b.output(b.gather(index, dtype, ".s"), "sc")
    rng = np.random.default_rng(2)
    for rows, columns in ((3, 5), (7, 40)):
        tables = [
            numbers(dtype, rng, shape) for shape in ((rows, 1, 9), (1, 1, 9), (1, columns, 9))
        ]
        check(b.program(), [indices(int64, (rows, columns), 9), *tables], (rows, columns))


def test_one_element_of_each_row():
    """Of logits those of the targets: the loss of cross entropy without a pass for it."""
    b = Builder(2)
    logits, target = b.input(float32, "sc"), b.input(int64, "s.")
    picked = b.gather(target, float32, "s.")
    b.output(b("subtract", b.reduce("sum", logits), picked), "s.")
    x = np.random.default_rng(3).standard_normal((9, 33)).astype(np.float32)
    check(b.program(), [x, indices(int64, (9, 1), 33), x[:, None]], (9, 33), eps=16, scale=4.0)


def test_an_index_that_is_computed():
    b = Builder(2)
    x = b.input(float32, "sc")
    b.output(b.gather(b.cast(b.reduce("max", x), int64), float32, ".s"), "sc")
    x = indices(int64, (6, 20), 8).astype(np.float32)
    table = np.random.default_rng(5).standard_normal((1, 20, 8)).astype(np.float32)
    check(b.program(), [x, table], (6, 20))


def test_an_index_out_of_range_reads_the_nearest_element():
    b = Builder(1)
    b.output(b.gather(b.input(int64, "c"), float32, "."), "c")
    index = np.array([-1, 0, 4, 5, 2**62, -(2**63)])
    table = np.arange(5, dtype=np.float32)[None]
    assert run(b.program(), [index, table], (6,))[0].tolist() == [0, 0, 4, 4, 4, 0]


@pytest.mark.parametrize("dtype", [int32, float32, float64], ids=str)
def test_rows_are_added_to_a_table(dtype):
    b = Builder(2)
    index, g = b.input(int64, "s."), b.input(dtype, "sc")
    b.output(b("multiply", g, b.constant(2, dtype)), ".c", at=index)
    rng = np.random.default_rng(6)
    for rows, columns in ((1, 1), (50, 7), (30, 1000)):
        g = numbers(dtype, rng, (rows, columns))
        table = numbers(dtype, rng, (11, columns))
        index = indices(int64, (rows, 1), 11)
        want = table.copy()
        np.add.at(want, index[:, 0], 2 * g)
        run(b.program(), [index, g], (rows, columns), (), [table.T[None]])
        np.testing.assert_array_equal(table, want)


def test_what_several_passes_give_is_added_to_a_table():
    b = Builder(2)
    index, x = b.input(int64, "s."), b.input(float32, "sc")
    b.output(b("divide", x, b.reduce("sum", x)), ".c", at=index)
    x = np.random.default_rng(7).random((40, 33), np.float32)
    index = indices(int64, (40, 1), 5)
    table, want = np.zeros((5, 33), np.float32), np.zeros((5, 33))
    np.add.at(want, index[:, 0], x / x.sum(1, keepdims=True, dtype=float))
    run(b.program(), [index, x], (40, 33), (), [table.T[None]])
    np.testing.assert_allclose(table, want, rtol=1e-5)


def test_stride_and_size_of_that_axis_are_requested():
    b = Builder(1)
    b.output(b.gather(b.input(int64, "c"), float32, "s"), "c")
    with pytest.raises(ProgramError, match=r"operand 1: .* walked by an index: 3 numbers"):
        Kernel.of(b.program())([1, 2, 3], (4,), [(1,), (1,), (1,)])
