"""Our own communicators, and what the contract derives, pass the kit that third parties run."""

from __future__ import annotations

import threading
import time

from fl_dist import (
    Communicator,
    Deadline,
    DistTimeoutError,
    LocalCommunicator,
    ThreadsCommunicator,
)
from fl_dist.testing import CommunicatorSuite, checked


class SendAndReceiveOnly(ThreadsCommunicator):
    """The least that an author can write: everything else is the contract's own code."""

    CONTRACT = (1, 0)
    name = "send and receive only"
    start = Communicator.start
    do_probe = Communicator.do_probe
    do_recv_any = Communicator.do_recv_any


class OneProgressThread(SendAndReceiveOnly):
    """A transport that no two threads may call."""

    CONTRACT = (1, 0)
    name = "one progress thread"
    thread_rule = "one"

    def do_send(self, x, dst, tag, channel, deadline):
        self._check_thread()
        super().do_send(x, dst, tag, channel, deadline)

    def do_recv(self, src, tag, channel, deadline, like=None):
        self._check_thread()
        while True:
            try:
                return super().do_recv(src, tag, channel, Deadline.past("[poll]"), like)
            except DistTimeoutError:
                if not deadline.remaining():
                    raise deadline.error(f"rank {src} in recv") from None
            self.progress()
            time.sleep(1e-4)

    def _check_thread(self):
        caller = threading.current_thread()
        assert vars(self).setdefault("_caller", caller) is caller, "a second thread calls"


class TestLocal(CommunicatorSuite):
    communicator = LocalCommunicator


class TestThreads(CommunicatorSuite):
    communicator = ThreadsCommunicator


class TestDerived(CommunicatorSuite):
    communicator = SendAndReceiveOnly


class TestOneThread(CommunicatorSuite):
    communicator = OneProgressThread


class TestChecked(CommunicatorSuite):
    communicator = checked(ThreadsCommunicator)
