"""The built-in backends pass the kit that third parties run."""

from __future__ import annotations

from fl_tensor.testing import TensorBackendSuite


class TestNumpy(TensorBackendSuite):
    backend = "numpy"


class TestNull(TensorBackendSuite):
    backend = "null"
