"""Micro-kernels for tile registers, in the instructions that they are made of: no processor here
has them, so that functions in NumPy stand for them, with the conditions of the manual."""

from __future__ import annotations

import ctypes
import re

import bfloat_pairs as pairs
import llvmlite.binding as llvm
import numpy as np
import pytest

import fl_tensor as ft
from fl_jit.kernels import Convolution, Layout, Matmul, channels_last, row_major
from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.llvm import amx, microkernel_registry
from fl_jit.kernels.llvm.conv import forward as convolution
from fl_jit.kernels.llvm.gemm import matmul
from fl_jit.kernels.llvm.microkernel import ADD, MicroKernel
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor import dtypes

WIDE = ("+avx512f", "+avx512bw", "+avx512dq", "+avx512vl")
MACHINE = Target("sapphirerapids", ",".join((*WIDE, "+amx-tile", "+amx-bf16")), 512)
needs_wide = pytest.mark.skipif(
    target.host().vector_bits < 512, reason="the vectors of these kernels have 512 bits"
)


class Tiles:
    """What the instructions do, on memory as it is."""

    def __init__(self):
        self.shapes = None
        self.held = {}
        self.used = []

    def ldtilecfg(self, address):
        about = np.frombuffer(ctypes.string_at(address, 64), np.uint8)
        assert about[0] == 1 and not about[1:16].any() and not about[32:48].any()
        widths, heights = about[16:32].view(np.uint16), about[48:56]
        assert not about[56:].any() and (widths <= 64).all() and (heights <= 16).all()
        self.shapes = [(int(h), int(w)) for h, w in zip(heights, widths)]
        self.held = {n: np.zeros(shape, np.uint8) for n, shape in enumerate(self.shapes)}

    def tilerelease(self):
        self.shapes, self.held = None, {}

    def tilezero(self, tile):
        self._there(tile)[...] = 0

    def tileloadd64(self, tile, address, pitch):
        for i, row in enumerate(self._there(tile)):
            row[...] = np.frombuffer(ctypes.string_at(address + i * pitch, len(row)), np.uint8)

    def tilestored64(self, tile, address, pitch):
        for i, row in enumerate(self._there(tile)):
            ctypes.memmove(address + i * pitch, row.tobytes(), len(row))

    def tdpbf16ps(self, to, left, right):
        c, a, b = map(self._there, (to, left, right))
        assert a.shape[0] == c.shape[0] and b.shape[1] == c.shape[1] and a.shape[1] == 4 * len(b)
        x = wide(a.view(np.uint16))
        y = wide(b.view(np.uint16).reshape(len(b), -1, 2).swapaxes(1, 2).reshape(2 * len(b), -1))
        c.view(np.float32)[...] += x @ y
        self.used.append((to, left, right))

    def _there(self, tile):
        assert self.shapes is not None and 0 not in self.shapes[tile], "no such tile"
        return self.held[tile]


def wide(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


INSTRUCTIONS = {
    "ldtilecfg": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
    "tilerelease": ctypes.CFUNCTYPE(None),
    "tilezero": ctypes.CFUNCTYPE(None, ctypes.c_uint8),
    "tileloadd64": ctypes.CFUNCTYPE(None, ctypes.c_uint8, ctypes.c_int64, ctypes.c_int64),
    "tilestored64": ctypes.CFUNCTYPE(None, ctypes.c_uint8, ctypes.c_int64, ctypes.c_int64),
    "tdpbf16ps": ctypes.CFUNCTYPE(None, *[ctypes.c_uint8] * 3),
}


class Emulation:
    """Micro-kernels whose tile instructions are calls of ``tiles``."""

    def __init__(self):
        self.tiles, self.failure, self._symbols, self._kept = Tiles(), None, {}, []
        for name, kind in INSTRUCTIONS.items():
            function = kind(self._guarded(getattr(self.tiles, name)))
            self._kept.append(function)
            self._symbols[name] = f"emulated_{id(self)}_{name}"
            address = ctypes.cast(function, ctypes.c_void_p).value
            llvm.add_symbol(self._symbols[name], address)

    def _guarded(self, act):
        def instruction(*operands):
            try:
                act(*operands)
            except AssertionError as error:  # which a callback would swallow
                self.failure = self.failure or error

        return instruction

    def maker(self, kernel, machine):
        """As ``amx.maker``, on any processor."""
        if not amx.fits(kernel):
            return None
        text = amx.assembly(kernel)
        for name, symbol in self._symbols.items():
            text = text.replace(f'"llvm.x86.{name}"', f'"{symbol}"')
        assert "llvm.x86" not in text
        return text

    def check(self):
        """Raises what went wrong."""
        if self.failure:
            raise self.failure
        assert self.tiles.shapes is None, "tiles are given back"


def check(kernel, k, columns, flags=0, taps=1):
    rng = np.random.default_rng(k)
    rows, most = kernel.tile.rows, 16 * kernel.tile.vectors
    x, y = rng.standard_normal((taps, rows, 2 * k)), rng.standard_normal((taps * 2 * k, columns))
    x, y = pairs.rounded(x), pairs.rounded(y)
    planes = np.full((taps, rows + 1, k + 3), -1, np.int32)
    planes[:, :rows, :k] = pairs.along(x)
    packed = np.zeros((taps * k, most), np.int32)
    packed[:, :columns] = pairs.along(y.T).T
    whole = rng.standard_normal((rows + 1, most + 3)).astype(np.float32)
    expected = whole.astype(float)
    place = (slice(rows), slice(columns))
    product = np.concatenate(list(x), axis=1).astype(float) @ y
    expected[place] = product + (expected[place] if flags & ADD else 0)
    offsets = np.array([t * planes.strides[0] for t in range(taps)], np.int64)
    emulation = Emulation()
    with microkernel_registry.register(emulation.maker):
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 11)(microkernel_registry.address(kernel))
    run(
        taps, offsets.ctypes.data, k, planes.ctypes.data, planes.strides[1], packed.ctypes.data, 0,
        whole.ctypes.data, whole.strides[0], flags, columns,
    )  # fmt: skip
    np.testing.assert_allclose(whole, expected, rtol=2e-6, atol=2e-6 * np.sqrt(2 * taps * k + 1))
    emulation.check()
    return emulation.tiles.used


@needs_wide
@pytest.mark.parametrize("shape", [(32, 2), (31, 2), (17, 1), (16, 2), (16, 1), (1, 2), (5, 1)])
def test_tiles_compute_a_product(shape):
    kernel = MicroKernel(dtypes.bfloat16, Tile(*shape))
    for k in (0, 1, 15, 16, 17, 48, 53):
        check(kernel, k, 16 * shape[1])
    check(kernel, 21, 16 * shape[1], flags=ADD, taps=3)


@needs_wide
def test_some_columns():
    kernel = MicroKernel(dtypes.bfloat16, Tile(20, 2), masked=True)
    for columns in (1, 15, 16, 17, 31, 32):
        check(kernel, 18, columns)
        check(kernel, 18, columns, flags=ADD)


@needs_wide
def test_four_products_for_four_loads():
    used = check(MicroKernel(dtypes.bfloat16, amx.BEST), 32, 32)
    assert used == [(0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7)] * 2


@pytest.fixture
def emulation(monkeypatch):
    made = Emulation()
    threads = ft.get_num_threads()
    ft.set_num_threads(1)  # all instructions have the same tiles
    monkeypatch.setattr(amx, "is_usable", lambda machine: True)
    with microkernel_registry.register(made.maker):
        yield made
    ft.set_num_threads(threads)


def random_bits(shape, seed):
    return (
        np.random.default_rng(seed).standard_normal(shape, np.float32).view(np.uint32) >> 16
    ).astype(np.uint16)


@needs_wide
@pytest.mark.parametrize("transposed", [False, True])
def test_products_run_on_tiles(emulation, transposed):
    m, k, n = 70, 74, 83
    x, y = random_bits((m, k), 0), random_bits((n, k) if transposed else (k, n), 1)
    out = np.zeros((m, n), np.float32)
    y_layout = Layout(dtypes.bfloat16, (k, n), (1, k) if transposed else (n, 1))
    layouts = row_major(dtypes.bfloat16, (m, k)), y_layout, row_major(dtypes.float32, (m, n))
    kernel = matmul.prepare(Matmul(*layouts))
    kernel(x.ctypes.data, y.ctypes.data, out.ctypes.data)
    emulation.check()
    expected = wide(x).astype(float) @ wide(y.T if transposed else y)
    np.testing.assert_allclose(out, expected, atol=1e-4)
    assert {used[0] for used in emulation.tiles.used} == {0, 1, 2, 3}


@needs_wide
def test_convolutions_run_on_tiles(emulation):
    x, w = random_bits((2, 9, 10, 6), 0), random_bits((40, 6, 3, 2), 1)  # channels last
    out = np.zeros((2, 9, 9, 40), np.float32)
    descriptor = Convolution(
        channels_last(dtypes.bfloat16, (2, 6, 9, 10)),
        row_major(dtypes.bfloat16, (40, 6, 3, 2)),
        channels_last(dtypes.float32, (2, 40, 9, 9)),
        (1, 1), ((1, 1), (0, 0)), (1, 1),
    )  # fmt: skip
    kernel = convolution.prepare(descriptor)
    kernel(x.ctypes.data, w.ctypes.data, out.ctypes.data)
    emulation.check()
    padded = np.pad(wide(x).astype(float), ((0, 0), (1, 1), (0, 0), (0, 0)))
    expected = sum(
        padded[:, i : i + 9, j : j + 9] @ wide(w)[:, :, i, j].T for i in range(3) for j in range(2)
    )
    np.testing.assert_allclose(out, expected, atol=1e-4)
    assert emulation.tiles.used


@pytest.mark.skipif(not target.triple().startswith("x86_64"), reason="looks at x86-64 code")
def test_the_loop_is_loads_and_products_alone():
    listing = compile.listing(amx.assembly(MicroKernel(dtypes.bfloat16, amx.BEST)), MACHINE)
    blocks = [b for b in re.split(r"\n\.L\w+:", listing) if "tdpbf16ps" in b]
    for block in blocks:
        body = block[block.index("tileloadd") : block.rindex("tdpbf16ps")]
        names = [line.split()[0] for line in body.splitlines() if line.strip()]
        assert names.count("tileloadd") == 4 and names.count("tdpbf16ps") == 3
        assert set(names) <= {"tileloadd", "tdpbf16ps", "leaq", "addq"}, body
    assert blocks


def test_without_tiles_others_are_asked(monkeypatch):
    kernel = MicroKernel(dtypes.bfloat16, Tile(4, 2))
    plain = Target("skylake-avx512", ",".join(WIDE), 512)
    for allowed in (True, False):
        monkeypatch.setattr(amx, "permitted", lambda allowed=allowed: allowed)
        assert amx.maker(kernel, plain) is None
        assert (amx.maker(kernel, MACHINE) is not None) == allowed
    monkeypatch.setattr(amx, "permitted", lambda: True)
    for other in (
        kernel._replace(dtype=dtypes.float32),
        kernel._replace(a="columns"),
        kernel._replace(b="rows"),
        kernel._replace(tile=Tile(33, 2)),
    ):
        assert amx.maker(other, MACHINE) is None


def test_permission_is_what_linux_says():
    has = "+amx-tile" in target.processor().features.split(",")
    assert amx.permitted() in ((True, False) if has else (False,))
