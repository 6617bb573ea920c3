"""The conformance suite of the memory contract.

    from acme import AcmeManager
    from fl_memory.testing import MemoryManagerSuite

    class TestAcme(MemoryManagerSuite):
        manager = AcmeManager

Every test hands the manager a ``LedgerMemory``, so that what it takes from the device and returns
to it is seen from outside, and compares its figures with books of the suite's own.
"""

from __future__ import annotations

from fl_memory.testing.suite.block_use import BlockUseTests
from fl_memory.testing.suite.blocks import BlockTests
from fl_memory.testing.suite.concurrency import ConcurrencyTests
from fl_memory.testing.suite.events import EventTests
from fl_memory.testing.suite.lifetimes import LifetimeTests
from fl_memory.testing.suite.statistics import StatisticsTests
from fl_memory.testing.suite.stress import StressTests


class MemoryManagerSuite(
    BlockTests,
    LifetimeTests,
    StressTests,
    ConcurrencyTests,
    StatisticsTests,
    EventTests,
    BlockUseTests,
    official=True,
):
    """Derive, name the class ``Test...``, set ``manager`` to the class under test.

    Override ``make(memory)`` when the class is not constructed as ``manager(memory)``: a class for
    each mode, so that every mode is tested. ``exercise(manager)`` is called again and again between
    requests, for managers that change their mode on a call of their own. Set ``patience`` where
    twenty seconds are too short to tell a slow machine from a deadlock.
    """
