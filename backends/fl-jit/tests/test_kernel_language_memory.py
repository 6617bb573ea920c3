# mypy: disable-error-code="valid-type"
"""Machine code of kernels reads and writes the elements that are named, and lets others run."""

from __future__ import annotations

import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit.kernel_language import JitKernelCompiler
from fl_jit.testing.guarded import Operand, Regions
from fl_tensor.kernels import Array, Kernel
from fl_tensor.kernels.binding import FORMATS, bound

needs_guard_pages = pytest.mark.skipif(sys.platform != "linux", reason="guard pages need Linux")


def compiled(kernel: Kernel) -> Any:
    """A kernel as machine code."""
    return bound(kernel.definition, JitKernelCompiler().compile(kernel.definition))


class Guarded:
    """Arrays that end, or begin, at a page that may not be touched."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self.regions = Regions()
        self.operands: list[Operand] = []

    def array(self, values: Any, dtype: str) -> np.ndarray[Any, Any]:
        """``values`` in such an array."""
        values = np.asarray(values).astype(dtype)
        operand = Operand(self.regions, values.nbytes, self.at_end, values.itemsize)
        self.operands.append(operand)
        found = operand.bytes.view(dtype)
        found[...] = values
        return found

    def is_intact(self) -> bool:
        """Whether the bytes around all of them are as they were."""
        return all(operand.surroundings_are_intact() for operand in self.operands)


def _kernels_of(dtype: str) -> Kernel:
    kind = Array[dtype]

    @ft.kernel
    def mirrored(x: kind, y: kind) -> int:
        """The elements in reverse order; how many are above the first."""
        n = len(x)
        above = 0
        for i in range(n):
            y[n - 1 - i] = x[i]
        for i in range(n):
            if x[i] > x[0]:
                above += 1
        return above

    return mirrored


@needs_guard_pages
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", FORMATS)
def test_loops_stay_within_their_arrays(dtype, at_end):
    """Loops with vectors: no load is wider than what is left."""
    function = compiled(_kernels_of(dtype))
    guarded = Guarded(at_end)
    for n in [*range(20), 63, 64, 65, 257]:
        x = guarded.array(np.arange(n) % 100, dtype)
        y = guarded.array(np.zeros(n), dtype)
        assert function(x, y) == (x > x[:1]).sum()
        assert (y == x[::-1]).all()
        assert guarded.is_intact()
        guarded.operands.clear()
        guarded.regions.reclaim()


class Rows(NamedTuple):
    """Rows of numbers, row k from first[k] to first[k + 1]."""

    first: Array[ft.int32]
    value: Array[ft.float64]
    limit: float


@ft.kernel
def guarded_reads(rows: Rows, index: int) -> float:
    """Reads an element only behind what says that it is there."""
    n = len(rows.value)
    found = rows.value[index] if 0 <= index < n else 0.0
    if index >= 0 and index < n and rows.value[index] > rows.limit:
        found += 1.0
    if index < 0 or index >= n or rows.value[index] < rows.limit:
        found += 10.0
    if index < n > 0 <= index < rows.value[max(0, min(index, n - 1))]:
        found += 100.0
    i = index
    while i < n and i >= 0 and rows.value[i] != 0.0:
        i += 1
    return found + 1000.0 * i


@needs_guard_pages
@pytest.mark.parametrize("at_end", [True, False])
def test_elements_behind_a_condition_are_not_read_unless_it_holds(at_end):
    """Also those that are many pages away."""
    function = compiled(guarded_reads)
    guarded = Guarded(at_end)
    for n in (0, 1, 4, 33):
        rows = Rows(
            guarded.array([0, n], "int32"), guarded.array(np.arange(n) % 7 + 0.5, "float64"), 3.0
        )
        for index in (-(10**12), -1, 0, 2, n - 1, n, n + 1, 10**12):
            assert function(rows, index) == guarded_reads.interpret(rows, index), (n, index)


@ft.kernel
def row_sums(rows: Rows, sums: Array[ft.float32]) -> None:
    for k in range(len(rows.first) - 1):
        total = 0.0
        for i in range(rows.first[k], rows.first[k + 1]):
            total += min(rows.value[i], rows.limit)
        sums[k] = total


@needs_guard_pages
@pytest.mark.parametrize("seed", range(10))
def test_nested_loops_over_a_record(seed):
    r = np.random.default_rng(seed)
    guarded = Guarded(at_end=seed % 2 == 0)
    first = np.concatenate([[0], np.cumsum(r.integers(0, 12, r.integers(1, 30)))])
    rows = Rows(guarded.array(first, "i4"), guarded.array(r.normal(size=first[-1]), "f8"), 0.5)
    sums = guarded.array(np.zeros(len(first) - 1), "f4")
    expected = np.zeros(len(first) - 1, "f4")
    row_sums.interpret(rows, expected)
    compiled(row_sums)(rows, sums)
    np.testing.assert_array_equal(sums, expected)
    assert guarded.is_intact()


@ft.kernel
def scrambled(rounds: int, x: Array[ft.int64]) -> None:
    """Fills ``x`` slowly, one element after the other."""
    seed = 1
    for i in range(len(x)):
        for _ in range(rounds):
            seed = (seed * 0x9E3779B97F4A7C15) ^ (seed >> 29)
        x[i] = seed | 1


def test_other_threads_run_during_a_call():
    """The GIL is released: this thread sees an array that is half filled."""
    function = compiled(scrambled)
    x = np.zeros(32, np.int64)
    thread = threading.Thread(target=function, args=(10**6, x))
    thread.start()
    seen = set()
    while thread.is_alive():
        seen.add(np.count_nonzero(x))
    thread.join()
    assert x.all()
    assert seen - {0, len(x)}


def test_several_threads_compile_and_call():
    kernels = [_kernels_of(dtype) for dtype in ("int16", "float32", "float64")] * 3
    wrong: list[str] = []

    def work(k: int) -> None:
        dtype = ("int16", "float32", "float64")[k % 3]
        function = compiled(kernels[k])
        x, y = np.arange(200).astype(dtype), np.zeros(200, dtype)
        for _ in range(50):
            function(x, y)
            if not (y == x[::-1]).all():
                wrong.append(dtype)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(kernels))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
