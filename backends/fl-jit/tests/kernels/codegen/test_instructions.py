"""Every instruction on every dtype that it takes gives what NumPy gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_programs import check, computed, numbers, run

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.instructions import ELEMENTWISE, REDUCTIONS
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor import dtypes

REAL = [d for d in dtypes.ALL.values() if d.kind != "c"]
FLOATING = [d for d in REAL if d.is_floating]
INF, NAN = math.inf, math.nan


def operations(dtype):
    return [op for op, signature in ELEMENTWISE.items() if dtype.kind in signature.kinds]


def elementwise(ops, dtype):
    """All of ``ops`` of two inputs, one output for each."""
    b = Builder(1)
    xs = b.input(dtype, "c"), b.input(dtype, "c")
    for op in ops:
        b.output(b(op, *xs[: ELEMENTWISE[op].arity]), "c")
    return b.program()


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_elementwise(dtype):
    """In one kernel: all that takes any number, then what wants positive ones."""
    rng = np.random.default_rng(0)
    picky = {"log", "log1p", "sqrt", "rsqrt", "power"} | {o for o in ELEMENTWISE if "shift" in o}
    for ops in (set(operations(dtype)) - picky, set(operations(dtype)) & picky):
        program = elementwise(sorted(ops), dtype) if ops else None
        for count in (1, 15, 100) if program else ():
            x, y = (numbers(dtype, rng, (count,)) for _ in range(2))
            if ops <= picky:
                x, y = (
                    abs(x) + x.dtype.type(0.01),
                    abs(y) % y.dtype.type(min(dtype.itemsize * 8, 12)),
                )
            eps = 0 if not dtype.is_floating else 1 if dtype in dtypes.HALF else 4
            # a remainder, a sine and what cancels are as large as the numbers that they are made of
            check(program, [x, y], (count,), eps=eps, scale=2.0)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.5, -0.5, INF, -INF, NAN, 1e30, -7.0, 6.0]
EXACT = "negative absolute sign floor ceil round add subtract multiply divide floor_divide sqrt"
EXACT += " remainder maximum minimum equal less"


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_special_numbers(dtype):
    x, y = (numbers(dtype, None, values=p.ravel()) for p in np.meshgrid(SPECIAL, SPECIAL))
    check(elementwise(EXACT.split(), dtype), [x, y], (len(x),))


@pytest.mark.parametrize("dtype", [d for d in REAL if d.is_integer], ids=str)
def test_integers_divided_by_anything(dtype):
    info = np.iinfo(dtype.name)
    values = np.array([0, 1, 2, 3, 7, info.max, info.min, info.max - 1], dtype.name)
    x, y = (v.ravel() for v in np.meshgrid(*2 * [np.concatenate([values, np.negative(values)])]))
    check(elementwise(["floor_divide", "remainder"], dtype), [x, y], (len(x),))


def test_shifts_and_casts_out_of_range_do_not_trap():
    b = Builder(1)
    x, y = b.input(dtypes.int32, "c"), b.input(dtypes.float64, "c")
    b.output(b("bitwise_left_shift", x, x), "c")
    b.output(b.cast(y, dtypes.int8), "c")
    x, y = np.array([40, -1, 31, 200], np.int32), np.array([1e30, NAN, -INF, 300.0])
    assert run(b.program(), [x, y], (4,))[1][3] == np.int8(44)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_cast(dtype):
    x = numbers(dtype, np.random.default_rng(1), (99,))
    for positive in (False, True) if dtype.is_floating else (True,):
        b = Builder(1)
        source = b.input(dtype, "c")
        for to in REAL if positive else [d for d in REAL if d.kind != "u"]:
            b.output(b.cast(source, to), "c")
        # int64 to bfloat16 is rounded by way of float32, here and in NumPy
        check(b.program(), [abs(x) if positive else x], (99,), eps=int(dtype.is_integer))


@pytest.mark.parametrize("to", sorted(dtypes.HALF, key=str), ids=str)
def test_float64_is_rounded_once_to_half_precision(to):
    b = Builder(1)
    b.output(b.cast(b.input(dtypes.float64, "c"), to), "c")
    step = 2.0**-10 if to is dtypes.float16 else 2.0**-7
    exact = 1 + step * np.arange(20)
    middle = exact + step / 2
    for x, want in ((middle + 1e-13, exact + step), (middle - 1e-13, exact)):
        np.testing.assert_array_equal(run(b.program(), [x], (20,))[0].astype(float), want)


@pytest.mark.parametrize("machine", ["host", "generic"])
def test_float16_in_memory(machine):
    """All of its numbers come and go unchanged, and rounding to them is to nearest, ties to even,
    with the processor's instructions and without."""
    there = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    near = np.random.default_rng(2).standard_normal(1 << 16).astype(np.float32)
    near *= np.float32(2.0) ** np.random.default_rng(3).integers(-30, 20, 1 << 16)
    near[:6] = [65519.9, 65520.0, -INF, NAN, 2.0**-25, 2.0**-24]
    b = Builder(1)
    x, y = b.input(dtypes.float16, "c"), b.input(dtypes.float32, "c")
    b.output(b.cast(x, dtypes.float32), "c")
    b.output(x, "c")
    b.output(b.cast(y, dtypes.float16), "c")
    kernel = Kernel(b.program(), getattr(target, machine)())
    wide, same, narrow = run(b.program(), [there, near], (1 << 16,), kernel=kernel)
    np.testing.assert_array_equal(wide, there.astype(np.float32))
    np.testing.assert_array_equal(same, there)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow, near.astype(np.float16))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_where_scalars_and_constants(dtype):
    b = Builder(1)
    condition, x = b.input(dtypes.bool, "c"), b.input(dtype, "c")
    chosen = b("where", condition, x, b.scalar(dtype))
    b.output(b("where", condition, b.constant(1, dtype), chosen), "c")
    b.output(chosen, "c")
    rng = np.random.default_rng(4)
    xs = [numbers(dtypes.bool, rng, (70,)), numbers(dtype, rng, (70,))]
    check(b.program(), xs, (70,), (numbers(dtype, rng, (1,))[0].item(),))


def test_constants_keep_their_bits():
    b = Builder(1)
    for value in (0.0, -0.0, INF, -INF, NAN, 0.1, 1e-45):
        b.output(b.constant(value, dtypes.float32), "c")
    for value in (0, -1, 2**63 - 1, -(2**63)):
        b.output(b.constant(value, dtypes.int64), "c")
    b.output(b.constant(2**64 - 1, dtypes.uint64), "c")
    got, want = run(b.program(), [], (5,)), computed(b.program(), [], (5,))
    for x, y in zip(got, want):
        assert x.tobytes() == np.ascontiguousarray(y).tobytes()


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_reductions(dtype):
    """All of them, over every extent, in one kernel."""
    b = Builder(2)
    x = b.input(dtype, "sc")
    near_one = b.input(dtype, "sc")
    for op in REDUCTIONS:
        for extent, axes in (("row", "s."), ("column", ".c"), ("all", "..")):
            b.output(b.reduce(op, near_one if op == "prod" else x, extent), axes)
    rng = np.random.default_rng(5)
    for sizes in ((3, 5), (7, 100), (100, 1)):
        x = numbers(dtype, rng, sizes)
        near_one = (1 + x / 100).astype(x.dtype) if dtype.is_floating else x
        eps = 1 if dtype in dtypes.HALF else 16
        check(b.program(), [x, near_one], sizes, eps=eps, scale=8.0)


def test_reductions_of_special_numbers():
    rows = [[1.0, NAN, 2.0], [INF, 1.0, -INF], [-INF, -INF, -INF], [-0.0, 0.0, -0.0]]
    b = Builder(2)
    x = b.input(dtypes.float32, "sc")
    for op in REDUCTIONS:
        b.output(b.reduce(op, x), "s.")
    check(b.program(), [np.array(rows, np.float32)], (4, 3))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_no_number_is_no_number_in_half_precision(dtype):
    """Also where what says so is in the bits that are cut off, and where rounding would carry."""
    b = Builder(1)
    b.output(b.cast(b.input(dtypes.float32, "c"), dtype), "c")
    bits = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF, 0x7FC00000] * 8, np.uint32)
    out = np.zeros(bits.size, np.uint16)
    address = [array.__array_interface__["data"][0] for array in (bits, out)]
    Kernel.of(b.program())(address, (bits.size,), [(1,), (1,)])
    infinity = 0x7C00 if dtype is dtypes.float16 else 0x7F80
    assert ((out & 0x7FFF) > infinity).all()
