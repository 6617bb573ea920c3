"""oneDNN, layouts of NumPy arrays, and calls of kernels on them. Tests of kernels are skipped where
no shared library is found; decisions of the tuner go to a folder of the session's own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import onednn_kernels
from fl_jit.kernels import KernelLibraryError, Layout, Tuner
from fl_tensor.dtypes import dtype
from onednn_kernels import OneDNN

sys.path.insert(0, str(Path(__file__).parent))  # cases are beside the tests


@pytest.fixture(scope="session")
def shared_library():
    try:
        return onednn_kernels.load()
    except KernelLibraryError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def library(shared_library, tmp_path_factory):
    """One for the session: making kernels takes more time than calling them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FL_CACHE_DIR", str(tmp_path_factory.mktemp("choices")))
        yield OneDNN(shared_library)


def lay(array: np.ndarray) -> Layout:
    """The layout of an array, as it lies."""
    strides = tuple(step // array.itemsize for step in array.strides)
    return Layout(dtype(array.dtype.name), array.shape, strides)


@pytest.fixture
def layout():
    return lay


@pytest.fixture
def run(library):
    """``run(descriptor, *arrays)``: compute, in the arrays' memory."""

    def call(descriptor, *arrays):
        kernel = library.find(descriptor)
        assert kernel is not None, library.why_not(descriptor)
        kernel(*(array.ctypes.data for array in arrays))
        return kernel

    return call


@pytest.fixture
def normal():
    """``normal(*shape, order="C", dtype="float32")``: standard normal numbers; order "last" puts
    axis 1 last in memory, a permutation puts the axes in that order."""
    rng = np.random.default_rng(7)

    def draw(*shape, order="C", dtype="float32"):
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


@pytest.fixture
def only(library, monkeypatch):
    """``only(kind)``: let one kind of kernel be the only candidate."""

    def restrict(kind):
        choose = Tuner.choose
        monkeypatch.setattr(
            Tuner, "choose", lambda self, key, made: choose(self, key, {kind: made[kind]})
        )
        library.forget()

    yield restrict
    library.forget()
