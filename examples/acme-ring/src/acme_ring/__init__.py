"""A ring all-reduce communicator for fl-dist."""

from acme_ring.communicator import RingCommunicator as RingCommunicator
