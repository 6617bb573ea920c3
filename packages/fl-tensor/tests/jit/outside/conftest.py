"""Backends that plan what is seen twice; ``swiglu.py`` is beside the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fl_tensor.backends.jit import JitBackend
from fl_tensor.backends.jit.planning.plans import Plans
from fl_tensor.backends.numpy import NumpyBackend

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["kernels", "numpy"])
def backend(request):
    """A backend that plans at the second sighting; with generated kernels and without."""
    made = JitBackend()
    if request.param == "numpy":
        made.plans = Plans(NumpyBackend(), fusible=lambda node: False)
    else:
        pytest.importorskip("llvmlite", reason="generated kernels take llvmlite")
    return made


@pytest.fixture
def fused(request):
    pytest.importorskip("llvmlite", reason="generated kernels take llvmlite")
    return JitBackend()
