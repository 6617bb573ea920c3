"""How operands lie in memory: broadcast, strided, transposed, reversed; every length of a tail."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_programs import check, computed, numbers, run

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor.dtypes import bool as boolean
from fl_tensor.dtypes import float16, float32, float64, int8, int64, uint64


def polynomial(*axes, dtype=float32, out=None):
    """1 + 2 x + 3 y + ... of inputs that move along ``axes``."""
    b = Builder(len(axes[0]))
    total = b.constant(1, dtype)
    for factor, letters in enumerate(axes, 2):
        x = b.input(dtype, letters)
        total = b("add", total, b("multiply", x, b.constant(factor, dtype)))
    b.output(total, out or "s" * (len(axes[0]) - 1) + "c")
    return b.program()


def draw(axes, sizes, dtype=float32):
    rng = np.random.default_rng(3)
    return [
        numbers(dtype, rng, tuple(1 if a == "." else n for a, n in zip(letters, sizes)))
        for letters in axes
    ]


@pytest.mark.parametrize("dtype", [boolean, int8, float16, float32, float64], ids=str)
def test_every_length_of_a_tail(dtype):
    b = Builder(1)
    x = b.input(dtype, "c")
    b.output(b("maximum", x, x), "c")
    b.output(b.reduce("max", x, "all"), ".")
    rng = np.random.default_rng(1)
    for count in range(1, 70):
        room = numbers(dtype, rng, (count + 8,))
        before = room.copy()
        outputs = [room[4:-4], np.empty(1, room.dtype)]
        source = numbers(dtype, rng, (count,))
        run(b.program(), [source], (count,), (), outputs)
        np.testing.assert_array_equal(outputs[0], source)
        assert outputs[1][0] == source.max()
        np.testing.assert_array_equal(room[:4], before[:4])
        np.testing.assert_array_equal(room[-4:], before[-4:])


@pytest.mark.parametrize(
    "axes", list(itertools.product(["sc", "s.", ".c", ".."], repeat=2)), ids="-".join
)
def test_broadcasting_in_two_axes(axes):
    for sizes in ((3, 5), (2, 40)):
        check(polynomial(*axes), draw(axes, sizes), sizes, eps=1)


@pytest.mark.parametrize("axes", [("ssc", ".s."), ("s.c", ".sc", "..."), ("s..", ".s.", "..c")])
def test_broadcasting_in_three_axes(axes):
    for sizes in ((2, 3, 5), (3, 1, 33)):
        check(polynomial(*axes), draw(axes, sizes), sizes, eps=1)


@pytest.mark.parametrize("dtype", [boolean, int8, float16, float32, float64], ids=str)
def test_strided_transposed_and_reversed_operands(dtype):
    b = Builder(2)
    found = b.input(dtype, "ss")
    for _ in range(2):
        found = b("maximum", found, b.input(dtype, "ss"))
    b.output(found, "ss")
    rng = np.random.default_rng(2)
    for rows, columns in ((3, 5), (20, 33)):
        inputs = [
            numbers(dtype, rng, (columns, rows)).T,
            numbers(dtype, rng, (rows, 3 * columns))[:, ::3],
            numbers(dtype, rng, (rows, columns))[::-1, ::-1],
        ]
        check(b.program(), inputs, (rows, columns))
        out = np.zeros((columns, 2 * rows), inputs[0].dtype)
        run(b.program(), inputs, (rows, columns), (), [out[:, ::2].T])
        want = computed(b.program(), inputs, (rows, columns))[0]
        np.testing.assert_array_equal(out[:, ::2].T, want)
        assert not out[:, 1::2].any()


@pytest.mark.parametrize("dtype", [boolean, int8, float16, float32, float64], ids=str)
@pytest.mark.parametrize("machine", [target.host, target.avx2, target.generic])
def test_every_second_element(dtype, machine):
    """Of arrays that end with the last of them, after rows of every length."""
    b = Builder(2)
    x, y = b.input(dtype, "s2"), b.input(dtype, ".2")
    larger = b("maximum", x, y)
    b.output(larger, "sc")
    b.output(b.reduce("max", larger, "row"), "s.")
    kernel = Kernel(b.program(), machine())
    rng = np.random.default_rng(5)
    for columns in (*range(1, 36), 100):
        inputs = [numbers(dtype, rng, (n, 2 * columns - 1))[:, ::2] for n in (3, 1)]
        check(b.program(), inputs, (3, columns), kernel=kernel)


@pytest.mark.parametrize("dtype", [boolean, int8, float16, float32, float64], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (3, 17, 16), (2, 100, 33), (1, 64, 300)])
@pytest.mark.parametrize("machine", [target.host, target.avx2, target.generic])
def test_a_transposed_input_beside_one_that_is_not(dtype, sizes, machine):
    """Blocks of rows begin anew with every image, and end where chunks do."""
    b = Builder(3)
    x, y, bias = b.input(dtype, "sts"), b.input(dtype, "ssc"), b.input(dtype, "..c")
    larger = b("maximum", b("maximum", x, y), bias)
    b.output(larger, "ssc")
    b.output(b.reduce("max", x, "column"), "..c")
    outer, rows, columns = sizes
    rng = np.random.default_rng(4)
    inputs = [
        numbers(dtype, rng, (outer, columns, rows)).transpose(0, 2, 1),
        numbers(dtype, rng, sizes),
        numbers(dtype, rng, (1, 1, columns)),
    ]
    check(b.program(), inputs, sizes, kernel=Kernel(b.program(), machine()))


def test_rows_of_a_transposed_input_in_several_passes():
    """Softmax over the channels of images, which are the last axis of what it writes."""
    b = Builder(3)
    x = b.input(float32, "sts")
    e = b("exp", b("subtract", x, b.reduce("max", x)))
    b.output(b("divide", e, b.reduce("sum", e)), "ssc")
    x = np.random.default_rng(5).standard_normal((2, 70, 130)).astype(np.float32)
    check(b.program(), [x.transpose(0, 2, 1)], (2, 130, 70), eps=8)


@pytest.mark.parametrize("axes", ["tc", "ct", "t", "tss", "t."])
def test_what_is_transposed_has_neighbours_along_the_axis_before_the_last(axes):
    with pytest.raises(ProgramError, match="'t' is for inputs|expected a letter"):
        polynomial(axes)


@pytest.mark.parametrize("channels_last", [False, True])
def test_pooling_is_a_program_with_an_input_for_each_place_of_the_window(channels_last):
    """The largest of 2 x 2 and their mean; all inputs lie in one image."""
    rng = np.random.default_rng(5)
    image = rng.standard_normal((2, 6, 10, 33) if channels_last else (2, 33, 6, 10)).astype("f4")
    if channels_last:
        windows = [image[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    else:
        windows = [image[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    b = Builder(4)
    xs = [b.input(float32, "sssc" if channels_last else "ssss") for _ in windows]
    largest, total = xs[0], xs[0]
    for x in xs[1:]:
        largest, total = b("maximum", largest, x), b("add", total, x)
    b.output(largest, "sssc")
    b.output(b("multiply", total, b.constant(0.25, float32)), "sssc")
    check(b.program(), windows, windows[0].shape, eps=1, scale=1.0)


def test_a_value_may_be_written_larger_than_it_is():
    b = Builder(2)
    b.output(b.input(float32, ".c"), "sc")
    b.output(b.input(float32, "s."), "sc")
    b.output(b.scalar(float32), "sc")
    b.output(b.reduce("sum", b.input(float32, "sc")), "sc")
    sizes = (4, 21)
    check(b.program(), draw([".c", "s.", "sc"], sizes), sizes, (1.5,), eps=16)


def test_large_scalars():
    b = Builder(1)
    b.output(b.scalar(uint64), "c")
    b.output(b.scalar(int64), "c")
    b.output(b.scalar(boolean), "c")
    large, small, flag = run(b.program(), [], (3,), (2**64 - 1, -(2**63), True))
    assert (large == 2**64 - 1).all() and (small == -(2**63)).all() and flag.all()


def test_calls_that_do_not_fit():
    kernel = Kernel.of(polynomial("sc", "s."))
    contiguous = (5, 1)
    with pytest.raises(ProgramError, match="3 sizes and strides of 3 operands: expected 2 and 3"):
        kernel([1, 2, 3], (4, 5, 6), [contiguous] * 3)
    with pytest.raises(ProgramError, match="expected 2 and 3"):
        kernel([1, 2, 3], (4, 5), [contiguous] * 2)
    with pytest.raises(ProgramError, match="strides .* of operand 1: expected one for each"):
        kernel([1, 2, 3], (4, 5), [contiguous, (1,), contiguous])
    with pytest.raises(ProgramError, match="2 addresses and 0 scalars .*: expected 3 and 0"):
        kernel([1, 2], (4, 5), [contiguous] * 3)
