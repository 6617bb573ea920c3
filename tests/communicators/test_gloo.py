"""The whole conformance kit on ``gloo``, in real processes."""

from __future__ import annotations

from fl_dist.gloo import GlooCommunicator
from fl_dist.testing import CommunicatorSuite


class TestGloo(CommunicatorSuite):
    communicator = GlooCommunicator
