"""The kernel library to test, layouts of NumPy arrays, and calls of kernels on them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import KernelLibrary, Layout, registry
from fl_tensor.dtypes import DType, dtype

sys.path.insert(0, str(Path(__file__).parent))  # cases are beside the tests


@pytest.fixture(scope="module")
def library() -> KernelLibrary:
    """The first library that FL_KERNEL_LIBRARIES names."""
    return registry.load((registry.requested() or ("generated",))[0])


def lay(array: np.ndarray) -> Layout:
    """The layout of an array, as it lies."""
    strides = tuple(step // array.itemsize for step in array.strides)
    return Layout(dtype(array.dtype.name), array.shape, strides)


@pytest.fixture
def layout():
    return lay


@pytest.fixture
def at_once(monkeypatch):
    """`jit` is the default, and defers nothing."""
    monkeypatch.setenv("FL_JIT_MIN_SIZE", str(1 << 40))
    with ft.use(JitBackend()) as backend:
        yield backend


@pytest.fixture
def normal():
    """``normal(*shape, order="C", dtype="float32")``: standard normal numbers; order "last" puts
    axis 1 last in memory, a permutation puts the axes in that order."""
    rng = np.random.default_rng(7)

    def draw(*shape, order="C", dtype: str | DType = "float32"):
        values = rng.standard_normal(shape, dtype=np.float32).astype(str(dtype))
        if order == "C":
            return values
        axes = (0, *range(2, len(shape)), 1) if order == "last" else order
        back = tuple(np.argsort(axes))
        return np.ascontiguousarray(values.transpose(axes)).transpose(back)

    return draw


@pytest.fixture
def unset():
    """``unset(*shape, order="C")``: NaNs to be written over."""

    def make(*shape, order="C", dtype="float32"):
        if order == "C":
            return np.full(shape, np.nan, dtype)
        axes = (0, *range(2, len(shape)), 1) if order == "last" else order
        back = tuple(np.argsort(axes))
        return np.full([shape[a] for a in axes], np.nan, dtype).transpose(back)

    return make
