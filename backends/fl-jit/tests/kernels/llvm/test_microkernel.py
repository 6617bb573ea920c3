"""A tile of a product: any rows and columns, however A and B lie, and nothing else touched."""

from __future__ import annotations

import ctypes
import re

import bfloat_pairs as pairs
import numpy as np
import pytest

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.errors import CompileError
from fl_jit.kernels.codegen.target import AVX512
from fl_jit.kernels.llvm import microkernel, microkernel_registry, tile
from fl_jit.kernels.llvm.microkernel import ADD, STREAM, MicroKernel
from fl_jit.kernels.llvm.tile import Tile
from fl_jit.kernels.registration import KernelWarning
from fl_tensor import dtypes
from fl_tensor.errors import ArgumentError

BEST = tile.best(target.host())
SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 11)


def width(kernel):
    return kernel.tile.vectors * target.host().lanes(kernel.dtype.itemsize)


def call(kernel, a, b, c, *, offsets=(0,), k, columns=None, flags=0):
    """C = or += sum of A_t B, of arrays whose first elements are those of A, B and C."""
    taps = np.array(offsets, np.int64)
    SIGNATURE(microkernel_registry.address(kernel))(
        len(taps), taps.ctypes.data, k, a.ctypes.data, a.strides[0], b.ctypes.data, b.strides[0],
        c.ctypes.data, c.strides[0], flags, width(kernel) if columns is None else columns,
    )  # fmt: skip


def close(found, expected, k):
    eps = np.finfo(found.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=8 * eps, atol=8 * eps * np.sqrt(k))


def check(kernel, k, columns, flags=0, taps=1):
    rng = np.random.default_rng(k * columns)
    dtype, rows, most = str(kernel.dtype), kernel.tile.rows, width(kernel)
    x = rng.standard_normal((taps, rows, k)).astype(dtype)
    y = rng.standard_normal((taps * k, columns)).astype(dtype)
    # A lies in a larger array, a tap a plane; what surrounds C must stay.
    planes = np.full((taps, rows + 2, k + 3), np.nan, dtype)
    if kernel.a == "columns":
        planes = planes.transpose(0, 2, 1).copy()
        planes[:, :k, :rows] = x.transpose(0, 2, 1)
    else:
        planes[:, :rows, :k] = x
    packed = np.zeros((taps * k, most if kernel.b == "packed" else columns + 5), dtype)
    packed[:, :columns] = y
    whole = rng.standard_normal((rows + 2, most + 7)).astype(dtype)
    expected = whole.astype(float)
    place = (slice(1, rows + 1), slice(3, 3 + columns))
    product = np.concatenate(list(x), axis=1).astype(float) @ y
    expected[place] = product + (expected[place] if flags & ADD else 0)
    offsets = [t * planes.strides[0] for t in range(taps)]
    call(
        kernel, planes[0], packed, whole[1:, 3:], offsets=offsets, k=k, columns=columns, flags=flags
    )
    close(whole, expected, taps * k)


@pytest.mark.parametrize("b", ["packed", "rows"])
@pytest.mark.parametrize("a", ["rows", "columns"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, BEST.rows - 1, BEST.rows])
def test_whole_tiles(rows, a, b):
    kernel = MicroKernel(dtypes.float32, Tile(rows, BEST.vectors), a, b)
    for k in (0, 1, 2, 3, 7, 64, 129):
        check(kernel, k, width(kernel))
    check(kernel, 5, width(kernel), flags=ADD)


@pytest.mark.parametrize("b", ["packed", "rows"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_some_columns(dtype, b):
    kernel = MicroKernel(dtype, Tile(3, BEST.vectors), b=b, masked=True)
    for columns in range(1, width(kernel) + 1):
        check(kernel, 9, columns)
        check(kernel, 9, columns, flags=ADD)


@pytest.mark.parametrize("a", ["rows", "columns"])
@pytest.mark.parametrize("shape", [(9, 3), (8, 3), (6, 4), (6, 2), (2, 1), (1, 4), (14, 2)])
def test_any_tile(shape, a):
    for k in (0, 3, 5):
        check(MicroKernel(dtypes.float32, Tile(*shape), a), k, width_of(shape), taps=2)
    check(MicroKernel(dtypes.float32, Tile(*shape), a), 30, width_of(shape))
    check(MicroKernel(dtypes.float64, Tile(*shape), a), 30, width_of(shape, 8), flags=ADD)


def width_of(shape, itemsize=4):
    return shape[1] * target.host().lanes(itemsize)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_a_result_may_be_written_past_the_caches(dtype):
    kernel = MicroKernel(dtype, Tile(5, BEST.vectors), streams=True)
    lines = np.zeros((6, width(kernel) + 16 * 8), str(dtype))
    c = lines[:5, -lines.ctypes.data % 64 // lines.itemsize :][:, : width(kernel)]
    a, b = np.ones((5, 9), str(dtype)), np.ones((9, width(kernel)), str(dtype))
    for flags, k in ((STREAM, 9), (0, 8), (STREAM, 7)):
        call(kernel, a, b, c, k=k, flags=flags)
        assert (c == k).all()
    assert lines.sum() == c.sum()
    check(kernel._replace(masked=True), 9, width(kernel) - 1, flags=STREAM)


def test_streaming_stores_are_only_where_they_are_requested():
    kernel = MicroKernel(dtypes.float32, BEST)
    requested = kernel._replace(streams=True)
    for each in (kernel, requested, requested._replace(masked=True)):
        has = "nontemporal" in microkernel.assembly(each, target.host())
        assert has == (each == requested)


@pytest.mark.parametrize("a", ["rows", "columns"])
def test_taps(a):
    kernel = MicroKernel(dtypes.float32, BEST, a)
    for taps in (0, 2, 9):
        check(kernel, 6, width(kernel), taps=max(taps, 1))
    c = np.ones((BEST.rows, width(kernel)), np.float32)
    call(kernel, c, c, c, offsets=(), k=5)
    assert not c.any(), "the sum over no taps is 0"


@pytest.mark.parametrize("shape", [BEST, (1, 2)], ids=str)
def test_prefetching_changes_nothing_and_needs_no_memory_there(shape):
    kernel = MicroKernel(dtypes.float32, Tile(*shape), "columns", prefetch=True)
    with_more = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 13)
    rng, found = np.random.default_rng(0), []
    x = rng.standard_normal((9, kernel.tile.rows)).astype(np.float32)
    y = rng.standard_normal((9, width(kernel))).astype(np.float32)
    offset = np.zeros(1, np.int64)
    for each in (kernel, kernel._replace(prefetch=False)):  # that one does not see it
        c = np.full((kernel.tile.rows, width(kernel)), np.nan, np.float32)
        with_more(microkernel_registry.address(each))(
            1, offset.ctypes.data, 9, x.ctypes.data, x.strides[0], y.ctypes.data, y.strides[0],
            c.ctypes.data, c.strides[0], 0, width(kernel), 1 << 62, -4096,
        )  # fmt: skip
        close(c, x.T.astype(float) @ y, 9)
        found.append(c.tobytes())
    assert found[0] == found[1]


def test_prefetching_advances_by_the_distance():
    """Nothing but time tells where a kernel looks, so the code is read."""
    text = microkernel.assembly(MicroKernel(dtypes.float32, BEST, prefetch=True), target.host())
    (distance,) = re.findall(r"^define .*i64 (\S+)\)", text, re.MULTILINE)
    steps = [line for line in text.splitlines() if "getelementptr" in line]
    assert [line for line in steps if line.endswith(f"i64 {distance}")]


#: LLVM keeps a product apart where it is not added at once, which takes a few more registers.
FUSED = [target.processor(), target.avx2()]


@pytest.mark.skipif(not target.triple().startswith("x86_64"), reason="looks at x86-64 code")
@pytest.mark.parametrize("a", ["rows", "columns"])
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("machine", FUSED, ids=lambda m: m.cpu)
def test_the_tile_stays_in_registers(machine, prefetch, a):
    """A loop that stores a vector keeps sums in memory, at half the speed or less."""
    shape = tile.best(machine)
    assert tile.fits(shape, machine)
    text = microkernel.assembly(MicroKernel(dtypes.float32, shape, a, prefetch=prefetch), machine)
    listing = compile.listing(text, machine, compile.Effort.TIDY)
    spills = re.findall(r"mov[au]p\w\s+%[xyz]mm\d+, -?\d*\(%r[sb]p\)", listing)
    assert spills == []
    assert ("prefetcht1" in listing) == prefetch


@pytest.mark.skipif(not target.triple().startswith("x86_64"), reason="looks at x86-64 code")
@pytest.mark.parametrize(("shape", "b", "lines"), [
    (Tile(6, 2), "packed", 1), (Tile(6, 2), "rows", 0), (Tile(1, 8), "packed", 0),
])  # fmt: skip
def test_a_packed_b_is_prefetched_where_loads_are_few(shape, b, lines):
    text = microkernel.assembly(MicroKernel(dtypes.float32, shape, b=b), target.avx2())
    listing = compile.listing(text, target.avx2(), compile.Effort.TIDY)
    assert len(re.findall(r"prefetcht0\s+\d{4}\(", listing)) == lines


@pytest.mark.skipif(not target.triple().startswith("x86_64"), reason="looks at x86-64 code")
@pytest.mark.parametrize("b", ["packed", "rows"])
def test_a_step_asks_for_lines_that_come_later(b):
    """Where it has time to: a tile of few rows loads as often as it multiplies."""

    def prefetched(rows, vectors):
        kernel = MicroKernel(dtypes.float32, Tile(rows, vectors), b=b)
        text = microkernel.assembly(kernel, target.avx2())
        listing = compile.listing(text, target.avx2(), compile.Effort.TIDY)
        steps = [part for part in re.split(r"\n\.LBB\w+:", listing) if "vfmadd" in part]
        return {len(re.findall("prefetch", part)) for part in steps}

    assert prefetched(6, 2) == {1}  # 64 bytes of B
    assert prefetched(4, 3) == {2}  # 96
    assert prefetched(2, 3) == {0}


@pytest.mark.skipif(not target.processor().has(*AVX512), reason="looks at AVX-512 code")
@pytest.mark.parametrize(("shape", "a", "direct"), [
    (Tile(14, 2), "columns", 9), (Tile(13, 2), "columns", 8), (Tile(9, 3), "columns", 5),
    (Tile(14, 2), "rows", 0), (Tile(6, 1), "columns", 6),
])  # fmt: skip
def test_multiplications_read_numbers_themselves_as_far_as_there_are_loads(shape, a, direct):
    """Each row takes an instruction less then, and as many loads as there are vectors."""
    machine = target.processor()
    kernel = MicroKernel(dtypes.float32, shape, a, prefetch=True)
    listing = compile.listing(microkernel.assembly(kernel, machine), machine, compile.Effort.TIDY)
    assert len(re.findall(r"vfmadd.*\{1to", listing)) == direct * shape.vectors
    assert len(re.findall("vbroadcast", listing)) == shape.rows - direct


@pytest.mark.skipif(not target.processor().has(*AVX512), reason="looks at AVX-512 code")
@pytest.mark.parametrize(("b", "masked", "turns"), [
    ("packed", False, (4, 1)), ("packed", True, (1,)), ("rows", False, (1,)),
])  # fmt: skip
def test_tiles_of_three_vectors_take_several_steps_in_a_turn(b, masked, turns):
    """And one at a time what is left. Rows 0, 4 and 8 have addresses, which multiply-adds read."""
    kernel, machine = (
        MicroKernel(dtypes.float32, Tile(9, 3), b=b, masked=masked),
        target.processor(),
    )
    listing = compile.listing(microkernel.assembly(kernel, machine), machine, compile.Effort.TIDY)
    steps = [part for part in re.split(r"\n\.LBB\w+:", listing) if "vfmadd" in part]
    assert tuple(part.count("vfmadd") / 27 for part in steps) == turns
    direct = 9 if len(turns) > 1 else 0
    assert listing.count("{1to") == direct * sum(turns)


# --- pairs of bfloat16 ----------------------------------------------------------------------------

needs_pairs = pytest.mark.skipif(
    not target.host().has_bfloat_products, reason="no instruction multiplies pairs of bfloat16"
)


def check_pairs(kernel, k, columns, flags=0, taps=1):
    rng = np.random.default_rng(k * columns)
    rows, most = kernel.tile.rows, width(kernel)
    x, y = rng.standard_normal((taps, rows, 2 * k)), rng.standard_normal((taps * 2 * k, columns))
    x, y = pairs.rounded(x), pairs.rounded(y)
    planes = np.full((taps, rows + 2, k + 3), -1, np.int32)  # pairs, of NaN
    planes[:, :rows, :k] = pairs.along(x)
    if kernel.a == "columns":
        planes = planes.transpose(0, 2, 1).copy()
    packed = np.zeros((taps * k, most if kernel.b == "packed" else columns + 5), np.int32)
    packed[:, :columns] = pairs.along(y.T).T
    whole = rng.standard_normal((rows + 2, most + 7)).astype(np.float32)
    expected = whole.astype(float)
    place = (slice(1, rows + 1), slice(3, 3 + columns))
    product = np.concatenate(list(x), axis=1).astype(float) @ y
    expected[place] = product + (expected[place] if flags & ADD else 0)
    offsets = [t * planes.strides[0] for t in range(taps)]
    call(
        kernel, planes[0], packed, whole[1:, 3:], offsets=offsets, k=k, columns=columns, flags=flags
    )
    close(whole, expected, 2 * taps * k)


@needs_pairs
@pytest.mark.parametrize("b", ["packed", "rows"])
@pytest.mark.parametrize("a", ["rows", "columns"])
@pytest.mark.parametrize("rows", [1, 3, BEST.rows])
def test_pairs_of_bfloat16(rows, a, b):
    kernel = MicroKernel(dtypes.bfloat16, Tile(rows, BEST.vectors), a, b)
    for k in (0, 1, 2, 7, 65):
        check_pairs(kernel, k, width(kernel))
    check_pairs(kernel, 5, width(kernel), flags=ADD, taps=3)
    kernel = kernel._replace(masked=True)
    for columns in (1, 7, width(kernel) - 1):
        check_pairs(kernel, 9, columns)
        check_pairs(kernel, 9, columns, flags=ADD)


def test_processors_without_pairs_are_refused():
    with pytest.raises(CompileError, match="haswell has no instruction for products of bfloat16"):
        microkernel.assembly(MicroKernel(dtypes.bfloat16, Tile(1, 1)), target.avx2())


def test_parts_are_balanced():
    assert tile.balanced(28, 14) == (2, 14, 0)
    assert tile.balanced(30, 14) == (3, 10, 0)
    assert tile.balanced(27, 14) == (2, 13, 1)
    assert tile.balanced(1, 14) == (1, 1, 0)
    assert tile.balanced(0, 14) == (1, 0, 0)


# --- micro-kernels of users -----------------------------------------------------------------------


def forty_two(kernel, machine):
    """Sets the first element of C to 42, and does nothing else."""
    if kernel.tile.rows != 1:
        return None
    arguments = "i64, ptr, i64, ptr, i64, ptr, i64, ptr %c, i64, i64, i64"
    body = "store float 4.200000e+01, ptr %c ret void"
    return f'target triple = "{target.triple()}" define void @micro({arguments}) {{ {body} }}'


def test_a_micro_kernel_can_be_replaced_for_a_while():
    one, two = (MicroKernel(dtypes.float32, Tile(rows, BEST.vectors)) for rows in (1, 2))
    c = np.zeros((1, width(one)), np.float32)
    own = microkernel_registry.address(one)
    with microkernel_registry.register(forty_two):
        call(one, c, c, c, k=1)
        assert c[0, 0] == 42 and not c[0, 1:].any()
        assert microkernel_registry.registered() == (forty_two,)
        check(two, 5, width(two))  # one that it leaves to others
    assert microkernel_registry.registered() == ()
    assert microkernel_registry.address(one) == own


def fails(kernel, machine):
    raise ZeroDivisionError("no such luck")


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        (fails, "ZeroDivisionError: no such luck"),
        (lambda kernel, machine: 5, "gave a int: expected LLVM IR as text, or None"),
        (lambda kernel, machine: "define nonsense", "CompileError"),
        (
            lambda kernel, machine: (
                f'target triple = "{target.triple()}" define void @mine() {{ ret void }}'
            ),
            "no function 'micro'",
        ),
    ],
)
def test_a_micro_kernel_that_cannot_be_made_is_left_out(factory, complaint):
    kernel = MicroKernel(dtypes.float32, Tile(1, BEST.vectors))
    own = microkernel_registry.address(kernel)
    warned = pytest.warns(KernelWarning, match=f"micro-kernel micro_float32.*{complaint}")
    with microkernel_registry.register(factory), warned:
        assert microkernel_registry.address(kernel) == own


def test_a_factory_is_a_function():
    with pytest.raises(ArgumentError, match="a micro-kernel factory is a str: expected a func"):
        microkernel_registry.register("x")
    assert microkernel_registry.registered() == ()


def test_tiles_that_fit_the_registers():
    wide = target.Target("", "+fma," + ",".join(target.AVX512), 512)
    for shape, fits in (((14, 2), True), ((15, 2), False), ((6, 4), True), ((7, 4), False)):
        assert tile.fits(Tile(*shape), wide) == fits
    if target.triple().startswith("x86_64"):  # 16 registers, one more for products without FMA
        for machine, most in ((target.avx2(), 14), (target.generic(), 13)):
            assert tile.fits(Tile(6, 2), machine)
            assert tile.fits(Tile(most, 1), machine) and not tile.fits(Tile(most + 1, 1), machine)
