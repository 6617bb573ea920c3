"""When the memory of a donated tensor may be written to: nothing else can read it."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

import fl_tensor as ft
from fl_dist import host_arrays

SIZE = 100_000


@pytest.fixture(params=["numpy", "jit"], autouse=True)
def backend(request):
    if request.param == "jit":
        pytest.importorskip("fl_jit")
    with ft.use(request.param):
        yield request.param


def test_memory_of_a_transport_is_reused_while_one_handle_has_it():
    x = host_arrays.zeros((SIZE,), "float32")
    array = host_arrays.reusable(x)
    assert array is not None and array.size == SIZE
    array[0] = 5.0
    assert x[0].item() == 5.0


HOLDERS = {
    "another handle": copy.copy,
    "a view in another shape": lambda x: x.reshape((2, -1)),
    "a slice": lambda x: x.numpy()[3:],
    "an array of NumPy": lambda x: x.numpy(),
    "a consumer of DLPack": lambda x: np.from_dlpack(x),
    "a buffer": lambda x: memoryview(x.numpy()),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_that_something_else_can_read_is_not(holder):
    x = host_arrays.zeros((SIZE,), "float32")
    held = HOLDERS[holder](x)
    assert host_arrays.reusable(x) is None
    del held
    gc.collect()
    assert host_arrays.reusable(x) is not None


def test_memory_of_an_operand_of_a_deferred_operation_is_not(backend):
    x = host_arrays.zeros((SIZE,), "float32")
    y = x + 1.0
    if not ft.is_ready(y):
        assert host_arrays.reusable(x) is None
    assert y.sum().item() == SIZE


def test_memory_of_others_is_not():
    assert host_arrays.reusable(ft.ones((SIZE,))) is None
    assert host_arrays.reusable(ft.from_dlpack(np.ones(SIZE, np.float32))) is None
    assert host_arrays.reusable(None) is None
