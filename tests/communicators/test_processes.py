"""The whole conformance kit on ``processes``, in real processes."""

from __future__ import annotations

from fl_dist.processes import ProcessesCommunicator
from fl_dist.testing import CommunicatorSuite


class TestProcesses(CommunicatorSuite):
    communicator = ProcessesCommunicator
