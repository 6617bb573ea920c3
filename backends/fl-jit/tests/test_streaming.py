"""Large results are written past the caches: the same bits, and only where it is allowed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_programs import computed, numbers, run

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import emit, target
from fl_jit.kernels.codegen.kernel import ALIGNED, Kernel, may_stream
from fl_jit.kernels.codegen.program import Builder
from fl_jit.steps import launch
from fl_tensor.dtypes import bool as boolean
from fl_tensor.dtypes import float16, float32, float64, int8


def larger(dtype, rank=2):
    """The larger of two, and the largest of a row."""
    b = Builder(rank)
    x, y = b.input(dtype, "s" * (rank - 1) + "c"), b.input(dtype, "." * (rank - 1) + "c")
    b.output(b("maximum", x, y), "s" * (rank - 1) + "c")
    return b.program()


def aligned(shape, dtype):
    """An empty array that begins at a multiple of ``ALIGNED`` bytes."""
    room = np.empty(np.prod(shape) * np.dtype(dtype).itemsize + ALIGNED, np.uint8)
    skip = -room.__array_interface__["data"][0] % ALIGNED
    return room[skip : len(room) - ALIGNED + skip].view(dtype).reshape(shape)


@pytest.mark.parametrize("machine", [target.host, target.avx2, target.generic])
@pytest.mark.parametrize("dtype", [boolean, int8, float16, float32, float64], ids=str)
def test_the_same_bits_whatever_the_length_of_a_row(dtype, machine):
    kernel = Kernel(larger(dtype), machine(), streams=True)
    assert "nontemporal" in emit.emit(kernel.program, machine(), None, True)
    rng = np.random.default_rng(1)
    for rows, columns in ((1, 1), (3, 64), (5, 1000), (2, 40_000)):
        inputs = [numbers(dtype, rng, (n, columns)) for n in (rows, 1)]
        room = aligned((rows, -(-columns // 64) * 64), inputs[0].dtype)
        out = room[:, :columns]
        run(kernel.program, inputs, (rows, columns), (), [out], kernel)
        np.testing.assert_array_equal(out, computed(kernel.program, inputs, (rows, columns))[0])


def test_rows_have_to_begin_at_multiples():
    program = larger(float32)
    assert may_stream(program, [(7, 1), (0, 1), (16, 1)])
    assert not may_stream(program, [(16, 1), (0, 1), (15, 1)])
    b = Builder(2)
    b.output(b.reduce("sum", b.input(float32, "sc")), "s.")
    assert not may_stream(b.program(), [(16, 1), (1, 0)])


@pytest.fixture
def jit(monkeypatch):
    streams = dataclasses.replace(cpu.host(), streaming_bytes=1 << 16)
    monkeypatch.setattr(cpu, "host", lambda: streams)
    backend = JitBackend()
    backend.plans.background = False
    with ft.use(backend):
        yield backend


@pytest.fixture
def streamed(monkeypatch):
    """Whether each call of a kernel streamed."""
    found = []
    true = launch._are_apart
    monkeypatch.setattr(launch, "_are_apart", lambda *a: found.append(true(*a)) or found[-1])
    return found


def test_large_new_results_stream_and_those_in_old_places_do_not(jit, streamed):
    given = np.random.default_rng(2).standard_normal((200, 160)).astype(np.float32)
    for _ in range(3):
        x = ft.asarray(given)
        y = x * 2.0 + 1.0
        ft.eval(y)
        np.testing.assert_array_equal(np.asarray(y), given * 2 + 1)
    assert streamed == [True] * 2  # once call by call, then by a plan
    streamed.clear()
    for _ in range(3):
        y = y * 2.0
        ft.eval(y)
    assert not any(streamed) and streamed


def test_small_results_do_not(jit, streamed):
    for _ in range(3):
        x = ft.asarray(np.ones((100, 100), np.float32)) * 2.0
        ft.eval(x)
    assert streamed == []
