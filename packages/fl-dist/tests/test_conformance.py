"""Our own communicators, and what the contract derives, pass the kit that third parties run."""

from __future__ import annotations

from fl_dist import Communicator, LocalCommunicator, ThreadsCommunicator
from fl_dist.testing import CommunicatorSuite, checked


class SendAndReceiveOnly(ThreadsCommunicator):
    """The least that an author can write: everything else is the contract's own code."""

    CONTRACT = (1, 0)
    name = "send and receive only"
    start = Communicator.start


class TestLocal(CommunicatorSuite):
    communicator = LocalCommunicator


class TestThreads(CommunicatorSuite):
    communicator = ThreadsCommunicator


class TestDerived(CommunicatorSuite):
    communicator = SendAndReceiveOnly


class TestChecked(CommunicatorSuite):
    communicator = checked(ThreadsCommunicator)
