"""How products are cut into blocks that caches hold, what they copy first, and where they write."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from checked_kernel import CheckedKernels
from gemm_cases import lay, run

from fl_jit.kernels import Layout, Matmul, Reorder, any_layout, cpu, row_major
from fl_jit.kernels.codegen import target
from fl_jit.kernels.llvm import tile
from fl_jit.kernels.llvm.gemm import blocking
from fl_tensor.dtypes import float32

HAS_32_REGISTERS = target.host().registers >= 32


#: Facts about processors whose L3 is far, and near.
FAR = {"l1": 48 << 10, "l2": 2 << 20, "l3": 0}
NEAR = {"l1": 32 << 10, "l2": 1 << 20, "l3": 16 << 20, "half_rate": True}


def test_blocks_follow_the_machine():
    """Shallow for few products, never deeper than the caches are for."""
    assert blocking.k_block(10, 6, 4) == 10
    assert blocking.k_block(0, 6, 4) == 2
    assert all(blocking.k_block(k, 6, 4) % 2 == 0 for k in range(1, 3000, 37))
    assert blocking.k_block(10_000, 6, 8) <= blocking.k_block(10_000, 6, 4) < 2000


@pytest.mark.parametrize(
    ("share", "near", "expected"),
    [
        (0, 0, (2 << 20) // 3),  # none
        (16 << 20, 16 << 20, 4 << 20),  # a quarter of what a processor has
        (128 << 20, 0, (2 << 20) // 3),  # all of a host: not this system's alone, and far away
    ],
)
def test_a_block_of_columns_fits_a_cache_of_our_own(share, near, expected, processor, monkeypatch):
    monkeypatch.setattr(cpu, "_caches", lambda: {1: 48 << 10, 2: 2 << 20, 3: share})
    found = cpu.host.__wrapped__()
    assert (found.l1, found.l2, found.l3) == (48 << 10, 2 << 20, near)
    processor(l1=found.l1, l2=found.l2, l3=found.l3)
    assert blocking.column_block(512, 4) == expected // (512 * 4)
    assert blocking.column_block(512, 4, from_l3=False) == (2 << 20) // 3 // (512 * 4)
    assert blocking.column_block(512, 4, wide=True) >= (2 << 20) * 3 // 4 // (512 * 4)
    assert blocking.column_block(1 << 30, 8) == 1


def test_what_the_system_does_not_report_is_assumed(monkeypatch, tmp_path):
    for number, (level, kind, size, processors) in enumerate(
        [
            (1, "Data", "48K", "1"),
            (1, "Instruction", "32K", "1"),
            (3, "Unified", "32M", "00,00000f"),
        ]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        about = {"level": level, "type": kind, "size": size, "shared_cpu_map": processors}
        for name, value in about.items():
            (folder / name).write_text(f"{value}\n")
    (tmp_path / "index9").mkdir()  # of which nothing can be read
    monkeypatch.setattr(cpu, "_FOLDER", tmp_path)
    found = cpu.host.__wrapped__()
    assert (found.l1, found.l2, found.l3) == (48 << 10, 512 << 10, 8 << 20)
    assert found.target == target.host()


@pytest.mark.skipif(not HAS_32_REGISTERS, reason="one tile for all")
def test_panels_are_equal_where_rows_lie_apart():
    machine = cpu.host()
    assert [tile.of_product(machine, 100, n, by_columns=True).vectors for n in (48, 32, 16, 8)] == [
        *(3, 4, 4, 4)
    ]
    assert tile.of_product(machine, 100, 48).vectors == 4


@pytest.mark.skipif(not HAS_32_REGISTERS, reason="one tile for all")
def test_tiles_read_less_of_a_second_factor_from_far_away(processor):
    machine = processor(**FAR)
    assert tile.of_product(machine, 100, 48, k=512) == (9, 3)
    assert tile.of_product(machine, 100, 48, k=32) == (6, 4), "the result is most of the work"
    assert tile.of_product(machine, 100, 8, k=512) == (6, 4), "panels would be unequal"
    assert tile.of_product(machine, 32, 48, k=512) == (6, 4), "packing is most of the work"
    machine = processor(**NEAR)
    assert tile.of_product(machine, 100, 48, k=512) == (6, 4)


def test_tiles_that_take_much_are_not_fed_from_the_third_cache(processor):
    processor(**NEAR)
    assert cpu.host().l3_feeds_fma is HAS_32_REGISTERS
    processor(**NEAR | {"half_rate": False})
    assert cpu.host().l3_feeds_fma is (HAS_32_REGISTERS and target.host().vector_bits < 512)
    processor(**FAR)
    assert not cpu.host().l3_feeds_fma


@pytest.mark.parametrize(
    ("m", "k", "n", "far", "near"),
    [
        # Rows 3 pages apart: all of a column in one place of L1. Tiles of 16 registers want L2.
        (64, 768, 3072, "pack", "" if HAS_32_REGISTERS else "pack"),
        (64, 768, 2304, "", ""),
        (64, 128, 3072, "", ""),  # L2 has all of it
        (512, 768, 3072, "pack", "pack"),
    ],
)
def test_a_second_factor_whose_rows_fight_for_the_caches_is_packed(
    processor, threads, m, k, n, far, near
):
    threads(1)
    descriptor = Matmul(*(row_major(float32, s) for s in ((m, k), (k, n), (m, n))))
    processor(**FAR)
    assert ("pack" in CheckedKernels().find(descriptor).about) == bool(far)
    processor(**NEAR)
    processor(l1=32 << 10, l2=2 << 20, l3=16 << 20)
    assert ("pack" in CheckedKernels().find(descriptor).about) == bool(near)


@pytest.mark.skipif(not HAS_32_REGISTERS, reason="with 16 it was not measured")
@pytest.mark.parametrize(
    ("m", "k", "n", "prefetched"),
    [
        *[(32, 512, 1024, True), (17, 300, 1023, True), (64, 260, 1031, True)],
        *[(16, 512, 1024, False), (65, 512, 1024, False)],  # streamed; worth packing for
        *[(32, 200, 1024, False), (32, 4096, 100, False)],  # caches hold it; rows are short
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_next_block_of_a_second_factor_in_memory_is_prefetched(
    processor, threads, m, k, n, prefetched, dtype
):
    processor(streaming_bytes=1 << 20)
    rng, item = np.random.default_rng(m), np.dtype(dtype).itemsize
    k, n = k * 4 // item, n if prefetched else n * 4 // item
    x, y = (rng.standard_normal(shape).astype(dtype) for shape in ((2, m, k), (2, k, n)))
    for third, count in itertools.product((FAR, NEAR), (1, 2)):
        processor(**third)
        threads(count)
        out = np.empty((2, m, n), dtype)
        descriptor = Matmul(lay(x), lay(y), lay(out))
        kernel = run(CheckedKernels(), descriptor, x, y, out)
        np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-3)
        run(CheckedKernels(), descriptor._replace(accumulate=True), x, y, out)
        np.testing.assert_allclose(out, 2 * (x @ y), rtol=1e-4, atol=1e-3)
        assert ("prefetched" in kernel.about) == prefetched


@pytest.mark.parametrize("third", [FAR, NEAR], ids=["far", "near"])
def test_blocks_for_any_caches_give_the_same_products(processor, threads, third):
    processor(**third)
    library, rng = CheckedKernels(), np.random.default_rng(5)
    for count, (m, k, n) in itertools.product((1, 2), ((290, 771, 1027), (19, 513, 1024))):
        threads(count)
        x = rng.standard_normal((m, k), dtype=np.float32)
        y = rng.standard_normal((k, n), dtype=np.float32)
        out = np.empty((m, n), np.float32)
        run(library, Matmul(lay(x), lay(y), lay(out)), x, y, out)
        np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-4, atol=1e-3)
        descriptor = Matmul(lay(x), any_layout(float32, y.shape), lay(out))
        packed = library.find(descriptor).operands[1]
        room = np.zeros(packed.nbytes // 4, np.float32)
        run(library, Reorder(lay(y), packed), y, room)
        run(library, descriptor._replace(y=packed), x, room, out)
        np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("m", "k", "n", "copied"),
    [
        *[(768, 300, 130, True), (1024, 300, 130, True), (200, 300, 130, False)],
        *[(600, 400, 600, True), (600, 400, 500, False), (500, 400, 600, False)],
        *[(600, 50, 600, False), (1001, 400, 513, True)],
    ],
)
def test_steps_of_k_that_do_not_stay_in_the_first_cache_are_copied_where_the_third_is_far(
    processor, m, k, n, copied
):
    rng = np.random.default_rng(m)
    x = rng.standard_normal((k, m), dtype=np.float32).T
    y = rng.standard_normal((k, n), dtype=np.float32)
    out = np.empty((m, n), np.float32)
    processor(l1=48 << 10, l2=2 << 20, l3=0)
    kernel = run(CheckedKernels(), Matmul(lay(x), lay(y), lay(out)), x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-4)
    assert ("copy" in kernel.about) is copied
    for half_rate in (True, False):
        processor(**NEAR | {"half_rate": half_rate})
        kernel = run(CheckedKernels(), Matmul(lay(x), lay(y), lay(out)), x, y, out)
        np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-4)
        from_nearby = cpu.host().l3_feeds_fma or n < 256 or k < 128
        assert ("copy" not in kernel.about) is from_nearby, "or all is read where it lies"


@pytest.mark.skipif(target.host().vector_bits < 512, reason="a vector is less than a line")
@pytest.mark.parametrize("offset", [0, 1, 8], ids="{} elements off".format)
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_results_too_large_for_caches_are_written_past_them(processor, threads, batch, offset):
    processor(**NEAR)
    processor(streaming_bytes=1)
    library, rng = CheckedKernels(), np.random.default_rng(offset)
    for count, (m, k, n) in itertools.product((1, 2), ((40, 32, 200), (7, 3, 130), (3, 0, 128))):
        threads(count)
        x = rng.standard_normal((*batch, m, k), dtype=np.float32)
        y = rng.standard_normal((*batch, k, n), dtype=np.float32)
        whole = np.full(16 + (*batch, 1)[0] * (m + 1) * 256 + offset, np.nan, np.float32)
        begin = -(whole.ctypes.data // 4) % 16 + offset  # of a line of 64 bytes, or not
        whole = whole[begin:][: (*batch, 1)[0] * (m + 1) * 256]
        out = whole.reshape(*batch, m + 1, 256)[..., :m, :n]
        kernel = run(library, Matmul(lay(x), lay(y), lay(out)), x, y, out)
        assert "past caches" in kernel.about
        np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)
        assert np.isnan(whole).sum() == whole.size - out.size, "nothing beside it is written"
        again = library.find(Matmul(lay(x), lay(y), lay(out), accumulate=True))
        assert "past caches" not in again.about, "what is there has to be read"


def test_results_of_rows_that_begin_anywhere_are_not(processor):
    processor(**NEAR)
    processor(streaming_bytes=1)
    x, y = (row_major(float32, s) for s in ((40, 32), (32, 200)))
    for out in (row_major(float32, (40, 201)), row_major(float32, (40, 200))):
        out = Layout(float32, (40, 200), out.strides)
        assert "past caches" not in CheckedKernels().find(Matmul(x, y, out)).about
    processor(streaming_bytes=64 << 20)
    large = [row_major(float32, s) for s in ((4096, 32), (32, 4096), (4096, 4096))]
    has_lines = target.host().vector_bits >= 512
    assert ("past caches" in CheckedKernels().find(Matmul(*large)).about) is has_lines
    processor(**FAR)
    assert "past caches" not in CheckedKernels().find(Matmul(*large)).about, "it takes them sooner"
