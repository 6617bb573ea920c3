"""The conformance kit of the memory contract.

``MemoryManagerSuite`` (needs pytest) tests a manager, ``CheckedManager`` watches one in a real run,
``python -m fl_memory.testing NAME`` runs the suite without a test file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_memory.testing.checked import CheckedManager as CheckedManager
from fl_memory.testing.ledger import LedgerMemory as LedgerMemory

if TYPE_CHECKING:
    from fl_memory.testing.suite import MemoryManagerSuite as MemoryManagerSuite


def __getattr__(name: str) -> Any:
    # Late, because only the suite needs pytest.
    if name == "MemoryManagerSuite":
        from fl_memory.testing.suite import MemoryManagerSuite

        return MemoryManagerSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
