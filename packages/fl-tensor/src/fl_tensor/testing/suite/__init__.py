"""``TensorBackendSuite``: the conformance tests of a tensor backend.

    from acme_fl import AcmeBackend
    from fl_tensor.testing import TensorBackendSuite

    class TestAcme(TensorBackendSuite):
        backend = AcmeBackend
        known_failures = {"test_operation[erf-float32-edge]": "acme#12"}

``known_failures`` is strict: an entry whose test passes, or that names no test, is an error. So is
overriding or emptying a test of the suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor.testing import lineage
from fl_tensor.testing.suite.claims import ClaimTests
from fl_tensor.testing.suite.front_end import FrontEndTests
from fl_tensor.testing.suite.memory import MemoryTests
from fl_tensor.testing.suite.operations import OperationTests, operation_ids, overridden
from fl_tensor.testing.suite.random_numbers import RandomTests
from fl_tensor.testing.suite.refusals import RefusalTests
from fl_tensor.testing.suite.value_semantics import ValueSemanticsTests


class TensorBackendSuite(
    ClaimTests,
    OperationTests,
    ValueSemanticsTests,
    RandomTests,
    FrontEndTests,
    RefusalTests,
    MemoryTests,
    official=True,
):
    """Subclass it, call the class ``Test...``, set ``backend``."""

    @classmethod
    def __fl_advice__(cls, failed: Sequence[str]) -> str:
        """Which failures of operations follow from those of others."""
        prefix = "test_operation["
        cases = [name[len(prefix) : -1] for name in failed if name.startswith(prefix)]
        return lineage.advice(cases, overridden(cls.under_test()))

    @classmethod
    def __fl_generate__(cls, metafunc: Any) -> list[str]:
        """Which operations and dtypes there are to test is the backend's to say."""
        wanted = {"operation": operation_ids, "derived": overridden}
        backend = cls.under_test()
        names = [name for name in wanted if name in metafunc.fixturenames]
        for name in names:
            found = list(wanted[name](backend))
            metafunc.parametrize(name, found or [""], ids=found or ["none"])
        return names
