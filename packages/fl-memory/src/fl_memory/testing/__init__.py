"""The conformance kit of the memory contract.

``MemoryManagerSuite`` tests a manager, ``DeviceMemorySuite`` a device memory (both need pytest).
``CheckedManager`` watches a manager in a real run, ``PeakMemory`` bounds what a program may need.
``python -m fl_memory.testing NAME`` runs the suite without a test file.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from fl_memory.testing.checked import CheckedManager as CheckedManager
from fl_memory.testing.ledger import LedgerMemory as LedgerMemory
from fl_memory.testing.peak import PeakMemory as PeakMemory

if TYPE_CHECKING:
    from fl_memory.testing.device_suite import DeviceMemorySuite as DeviceMemorySuite
    from fl_memory.testing.suite import MemoryManagerSuite as MemoryManagerSuite

#: Suites by their module, which needs pytest.
_SUITES = {
    "DeviceMemorySuite": "fl_memory.testing.device_suite",
    "MemoryManagerSuite": "fl_memory.testing.suite",
}


def __getattr__(name: str) -> Any:
    # Late, because only the suites need pytest.
    if name in _SUITES:
        if _SUITES[name] not in sys.modules:
            import pytest

            # So that failures show both sides of a comparison.
            pytest.register_assert_rewrite("fl_memory.testing.suite", _SUITES[name])
        return getattr(importlib.import_module(_SUITES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
