"""The conformance kit for communicators. Needs pytest (``fl-dist[testing]``)."""

from __future__ import annotations

import pytest

# So that failures show both sides of a comparison.
pytest.register_assert_rewrite("fl_dist.testing.suite", "fl_dist.testing.suite_errors")

from fl_dist.testing.checked import CheckedCommunicator as CheckedCommunicator  # noqa: E402
from fl_dist.testing.checked import ViolationError as ViolationError  # noqa: E402
from fl_dist.testing.checked import checked as checked  # noqa: E402
from fl_dist.testing.suite import CommunicatorSuite as CommunicatorSuite  # noqa: E402
