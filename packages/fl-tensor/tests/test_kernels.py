"""Kernels: the subset of Python, arguments, results (docs/kernels.md)."""

from __future__ import annotations

import array
import math
from typing import NamedTuple

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.kernels import Array, empty

HASH = 0x9E3779B97F4A7C15 - (1 << 64)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FL_KERNEL_COMPILER", "interpreter")


class Table(NamedTuple):
    keys: Array[ft.int64]
    values: Array[ft.float32]
    used: int


@ft.kernel
def slot(table: Table, key: int) -> int:
    """Where a key is, or the free place where it belongs."""
    mask = len(table.keys) - 1
    i = ((key * HASH) >> 29) & mask
    while table.keys[i] >= 0 and table.keys[i] != key:
        i = (i + 1) & mask
    return i


@ft.kernel
def insert(table: Table, keys: Array[ft.int32], values: Array[ft.float64]) -> int:
    n = table.used
    for k in range(len(keys)):
        i = slot(table, keys[k])
        if table.keys[i] < 0:
            n += 1
        table.keys[i] = keys[k]
        table.values[i] = values[k]
    return n


@ft.kernel
def log_add(x: Array[ft.float32]) -> float:
    high = -math.inf
    for i in range(len(x)):
        high = max(high, x[i])
    if high == -math.inf:
        return high
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i] - high)
    return high + math.log(total)


def test_a_kernel_computes_what_the_function_says() -> None:
    table = Table(np.full(16, -1), np.zeros(16, np.float32), 0)
    keys = np.array([3, 8, 3, 11], np.int32)
    assert insert(table, keys, np.array([0.5, 1.5, 2.5, 3.5])) == 3
    found = {k: float(v) for k, v in zip(table.keys.tolist(), table.values) if k >= 0}
    assert found == {3: 2.5, 8: 1.5, 11: 3.5}


def test_arrays_may_be_anything_with_a_buffer_and_tensors() -> None:
    values = [0.0, 1.0, 2.0]
    expected = math.log(sum(map(math.exp, values)))
    made = empty(3, ft.float32)
    made[:] = memoryview(array.array("f", values))
    for x in (np.float32(values), array.array("f", values), made, ft.asarray(values)):
        assert log_add(x) == pytest.approx(expected, abs=1e-12)


def test_results_become_tensors_without_a_copy() -> None:
    made = empty(4, "int64")
    for i in range(4):
        made[i] = i
    x = ft.asarray(made, copy=False)
    assert x.dtype is ft.int64 and x.tolist() == [0, 1, 2, 3]
    assert np.shares_memory(x.numpy(), np.asarray(made))


def test_the_definition_says_what_is_called_read_and_written() -> None:
    definition = insert.definition
    assert definition.callees["slot"] is slot.definition
    assert slot.definition.constants == {"HASH": HASH}
    assert definition.written == {"table.keys", "table.values"}
    assert slot.definition.written == frozenset()
    assert len(definition.digest) == 64


def test_the_interpreter_checks_each_index() -> None:
    with pytest.raises(ft.IndexingError, match=r"keys\[.*has 0 elements"):
        slot.interpret(Table(np.zeros(0, np.int64), np.zeros(0, np.float32), 0), 5)
