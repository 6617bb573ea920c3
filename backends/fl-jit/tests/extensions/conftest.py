"""Backends that plan what is seen twice; ``swiglu.py`` is beside the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fl_jit import JitBackend
from fl_jit.planning.plan_cache import PlanCache
from fl_tensor.backends.numpy import NumpyBackend

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["kernels", "numpy"])
def backend(request):
    """A backend that plans at the second run; with generated kernels and without."""
    made = JitBackend()
    if request.param == "numpy":
        made.plans = PlanCache(NumpyBackend(), fusible=lambda node: False)
    return made


@pytest.fixture
def fused(request):
    return JitBackend()
