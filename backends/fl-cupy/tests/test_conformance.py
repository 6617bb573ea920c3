"""The conformance kit, on a GPU where there is one, else on an imitation of CuPy."""

from __future__ import annotations

from cupy_imitation import CupyBackend
from fl_tensor.testing import TensorBackendSuite


class TestCupy(TensorBackendSuite):
    backend = CupyBackend
