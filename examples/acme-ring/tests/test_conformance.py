from acme_ring import RingCommunicator
from fl_dist.testing import CommunicatorSuite


class TestRing(CommunicatorSuite):
    communicator = RingCommunicator
