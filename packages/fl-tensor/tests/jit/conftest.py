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
def of_one_session(kernel_files, plans_in_the_foreground):
    pass


@pytest.fixture
def jit():
    """A backend of its own, which puts everything off."""
    backend = JitBackend()
    backend.smallest, backend.plans.worth.patience = 1, 0
    with ft.use(backend):
        yield backend
