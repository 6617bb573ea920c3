"""The built-in backends pass the kit that third parties run."""

from __future__ import annotations

import gc

import fl_memory
from fl_memory.managers.system import SystemManager
from fl_memory.testing import CheckedManager
from fl_tensor import dtypes
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.testing import CASES, TensorBackendSuite
from fl_tensor.testing.harness import Harness


class TestNumpy(TensorBackendSuite):
    backend = "numpy"


class TestNull(TensorBackendSuite):
    backend = "null"


def test_numpy_keeps_to_its_blocks_when_every_result_lies_in_one() -> None:
    """All samples again, strictly managed: same values, nothing written outside, nothing lost."""
    harness = Harness(NumpyBackend())
    found = []
    with fl_memory.use(CheckedManager(SystemManager(small_bytes=0))) as manager:
        for case in CASES.values():
            dtype = dtypes.int32 if not case.accepts(dtypes.float32) else dtypes.float32
            for sample in filter(harness.supports, case.draw(dtype)):
                found += [f"{case.name}({sample}): {p}" for p in harness.check(case, sample, dtype)]
        served = manager.stats().allocs
        del sample
        harness.backend.__dict__.clear()  # cached constants
        gc.collect()
        manager.verify()
        assert manager.leaks() == []
    assert found == []
    assert served > len(CASES)
