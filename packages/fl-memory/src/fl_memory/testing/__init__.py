"""The conformance kit of the memory contract.

``MemoryManagerSuite`` (needs pytest) tests a manager, ``CheckedManager`` watches one in a real run,
``python -m fl_memory.testing NAME`` runs the suite without a test file.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fl_memory.testing.checked import CheckedManager as CheckedManager
from fl_memory.testing.ledger import LedgerMemory as LedgerMemory

if TYPE_CHECKING:
    from fl_memory.testing.suite import MemoryManagerSuite as MemoryManagerSuite


def __getattr__(name: str) -> Any:
    # Late, because only the suite needs pytest.
    if name == "MemoryManagerSuite":
        if "fl_memory.testing.suite" not in sys.modules:
            import pytest

            # So that failures show both sides of a comparison.
            pytest.register_assert_rewrite("fl_memory.testing.suite")
        from fl_memory.testing.suite import MemoryManagerSuite

        return MemoryManagerSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
