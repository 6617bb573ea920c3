"""Anonymous shared memory between processes: it has no name, so it cannot leak."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import tempfile
import weakref
from collections import deque
from multiprocessing.connection import Connection

_LEAST = 1 << 16


def create(nbytes: int) -> tuple[mmap.mmap, int]:
    """At least `nbytes` new bytes, and the descriptor with which another process can `receive` it
    (close it after `send`). Sizes are powers of two; pages that nobody touches take no memory."""
    size = max(_LEAST, 1 << (nbytes - 1).bit_length())
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fl-data")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size), descriptor
    except BaseException:
        os.close(descriptor)
        raise


def send(connection: Connection, descriptor: int) -> None:
    """Let the other end of `connection` `receive` this memory."""
    with _socket(connection) as channel:
        socket.send_fds(channel, [b"m"], [descriptor])


def receive(connection: Connection) -> mmap.mmap:
    """The memory that the other end has sent. Raises `EOFError` when that end is gone."""
    with _socket(connection) as channel:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not descriptors:
        raise EOFError
    try:
        return mmap.mmap(descriptors[0], 0)
    finally:
        os.close(descriptors[0])


def _socket(connection: Connection) -> socket.socket:
    return socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


class Slots:
    """The pieces of memory that one worker writes samples into, as the consumer sees them.

    A slot is free, or with the worker (or a sample that waits), or lent: a sample that was handed
    out shows its memory. It is free again when nothing is left that shows it.
    """

    def __init__(self) -> None:
        self._memory: dict[int, mmap.mmap] = {}
        self._free: deque[int] = deque()
        self._lent: set[int] = set()

    @property
    def lent(self) -> int:
        return len(self._lent)

    def take(self) -> int | None:
        """A free slot, for the worker to write into."""
        return self._free.popleft() if self._free else None

    def put(self, slot: int) -> None:
        """Nobody needs what is in this slot."""
        self._free.append(slot)

    def add(self, slot: int, memory: mmap.mmap) -> None:
        self._memory[slot] = memory

    def drop(self, slot: int) -> None:
        del self._memory[slot]

    def read(self, slot: int) -> memoryview:
        """The bytes of a slot, for now."""
        return memoryview(self._memory[slot])

    def lend(self, slot: int) -> memoryview:
        """The bytes of a slot, which is lent until the view and everything made from it is gone."""
        memory = self._memory[slot]
        lease = (ctypes.c_char * len(memory)).from_buffer(memory)
        self._lent.add(slot)
        # A view keeps the lease alive, and the lease the memory: also after the worker's end.
        weakref.finalize(lease, self._returned, slot).atexit = False
        return memoryview(lease).cast("B")

    def _returned(self, slot: int) -> None:
        self._lent.discard(slot)
        self._free.append(slot)
