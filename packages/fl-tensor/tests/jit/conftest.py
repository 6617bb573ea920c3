"""Helpers of this folder are imported by name; compiled kernels are kept for one session only,
and plans are made in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fl_tensor as ft
from fl_tensor.backends.jit import JitBackend

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def kernel_files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kernels")
        patch.setenv("FL_CACHE_DIR", str(folder))
        patch.setenv("FL_JIT_BACKGROUND", "0")
        yield folder


@pytest.fixture
def jit():
    """A backend of its own, which puts everything off."""
    backend = JitBackend()
    backend.smallest, backend.plans.worth.patience = 1, 0
    with ft.use(backend):
        yield backend
