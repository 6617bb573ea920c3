"""A backend that defers everything; compiled kernels are kept for one session, and plans are made
in the foreground."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fl_tensor as ft
from fl_jit import JitBackend

# Helpers are imported by name.
sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("", "kernels/codegen")]

# Tests compare with the specification in code; those of jit ask for it.
os.environ.setdefault("FL_TENSOR_BACKEND", "numpy")


@pytest.fixture(scope="session", autouse=True)
def kernel_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for compiled kernels and for tuning choices, of this session alone."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kernels")
        patch.setenv("FL_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def plans_in_the_foreground() -> Iterator[None]:
    """Plans are made when they are asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FL_JIT_BACKGROUND", "0")
        yield


@pytest.fixture
def jit() -> Iterator[JitBackend]:
    """A backend of its own, which defers every operation."""
    backend = JitBackend()
    backend.smallest, backend.plans.policy.patience = 1, 0
    with ft.use(backend):
        yield backend


@pytest.fixture
def alarm() -> Iterator[None]:
    """The test fails if it does not end in a while."""

    def late(number: int, frame: Any) -> None:
        pytest.fail("it does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 10, 5)  # again for what tears down
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
