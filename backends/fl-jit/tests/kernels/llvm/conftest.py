"""Machine code that tests make is kept for one session; helpers lie beside the tests."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

import fl_tensor as ft

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def library():
    from checked_kernel import CheckedKernels  # takes llvmlite

    return CheckedKernels()


@pytest.fixture
def threads():
    """``threads(count)`` sets their number, for one test."""
    before = ft.get_num_threads()
    yield ft.set_num_threads
    ft.set_num_threads(before)


@pytest.fixture
def processor(monkeypatch):
    """``processor(l3=0)`` changes facts about the processor, for one test; its context."""
    from fl_jit.kernels import cpu

    def change(**facts):
        found = dataclasses.replace(cpu.host(), **facts)
        monkeypatch.setattr(cpu, "host", lambda: found)
        return found

    return change
