"""The conformance kit for communicators (install ``fl-dist[testing]``).

``CommunicatorSuite`` is a test class to derive from; ``python -m fl_dist.testing NAME`` runs it
without any file. ``CheckedCommunicator`` watches a communicator in a real run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_dist.testing.checked import CheckedCommunicator as CheckedCommunicator
from fl_dist.testing.checked import ViolationError as ViolationError
from fl_dist.testing.checked import checked as checked

if TYPE_CHECKING:
    from fl_dist.testing.suite import CommunicatorSuite as CommunicatorSuite


def __getattr__(name: str) -> Any:
    # Late, because only the suite needs pytest.
    if name == "CommunicatorSuite":
        import pytest

        # So that failures show both sides of a comparison.
        pytest.register_assert_rewrite("fl_dist.testing.suite", "fl_dist.testing.suite_errors")
        from fl_dist.testing.suite import CommunicatorSuite

        return CommunicatorSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
