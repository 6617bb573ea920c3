"""One rank's connections on the ring.

It writes to the next rank, reads from the previous one, and forwards messages for other ranks.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections import deque

from acme_ring import wire
from acme_ring.wire import Frame
from fl_dist import Deadline, PeerError


class Place:
    """Two threads: one writes what is queued, so that nobody ever waits to send; one reads."""

    def __init__(
        self, rank: int, size: int, to_next: socket.socket, from_previous: socket.socket
    ) -> None:
        self.rank = rank
        self._size = size
        self._to_next = to_next
        self._from_previous = from_previous
        self._outbox: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._inbox: dict[tuple[int, tuple[int, int]], deque[Frame]] = {}
        self._ended: set[int] = set()
        self._failure: tuple[int, str] | None = None
        self._threads = [
            threading.Thread(target=self._write, name=f"ring {rank} writes", daemon=True),
            threading.Thread(target=self._read, name=f"ring {rank} reads", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, frame: Frame) -> None:
        self._outbox.put(frame)

    def receive(self, src: int, address: tuple[int, int], deadline: Deadline) -> Frame:
        """The next frame of ``src`` at ``address``; PeerError when there will be none."""
        with self._changed:
            while True:
                found = self._inbox.get((src, address))
                if found:
                    return found.popleft()
                if self._failure is not None:
                    raise PeerError(deadline.where, *self._failure)
                if src in self._ended:
                    raise PeerError(deadline.where, src, "its program ended without sending")
                if not deadline.remaining():
                    raise deadline.error(f"rank {src}")
                self._changed.wait(deadline.remaining())

    def announce(self, kind: int, cause: str = "") -> None:
        """Tell every rank that this one has ENDED or FAILED."""
        self._deliver(Frame(kind, self.rank, self.rank, (0, 0), cause, b""))

    def leave(self, deadline: Deadline) -> None:
        """Say goodbye, pass on what the others still send, and hang up when all have left."""
        self.announce(wire.ENDED)
        with self._changed:
            while len(self._ended) < self._size and self._failure is None:
                if not deadline.remaining():
                    raise deadline.error("the others to leave")
                self._changed.wait(deadline.remaining())
        self._outbox.put(None)
        for thread in self._threads:
            thread.join(deadline.remaining())

    def _deliver(self, frame: Frame) -> None:
        if frame.kind != wire.DATA:
            self.send(frame)
        with self._changed:
            if frame.kind == wire.DATA:
                self._inbox.setdefault((frame.src, frame.address), deque()).append(frame)
            elif frame.kind == wire.ENDED:
                self._ended.add(frame.src)
            elif self._failure is None:
                self._failure = (frame.src, frame.text)
                self._outbox.put(None)  # hang up when the news is written
            self._changed.notify_all()

    def _write(self) -> None:
        try:
            while (frame := self._outbox.get()) is not None:
                wire.write(self._to_next, frame)
        except OSError as error:
            self._lost(error)
        finally:
            self._to_next.close()  # the next rank's reader ends

    def _read(self) -> None:
        try:
            while True:
                frame = wire.read(self._from_previous)
                if frame.kind == wire.DATA and frame.dst != self.rank:
                    self.send(frame)
                elif frame.kind == wire.DATA or frame.src != self.rank:  # else it came full circle
                    self._deliver(frame)
        except OSError as error:
            self._lost(error)
        finally:
            self._from_previous.close()

    def _lost(self, error: OSError) -> None:
        with self._changed:
            self._failure = self._failure or (self.rank, f"its place on the ring broke: {error}")
            self._changed.notify_all()


def connect(size: int) -> list[Place]:
    """A ring of ``size`` places, joined by sockets on the loopback interface."""
    with socket.create_server(("127.0.0.1", 0), backlog=size) as server:
        pairs = []
        for _ in range(size):
            near = socket.create_connection(server.getsockname())
            far, _ = server.accept()
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pairs.append((near, far))
    # Pair r joins rank r to rank r + 1.
    return [Place(r, size, pairs[r][0], pairs[r - 1][1]) for r in range(size)]
