"""Messages between processes: a stream socket per pair of ranks, and a thread that reads them all.

The reader thread takes in whatever arrives, so a sender never waits for the program of the
receiver. A rank says goodbye before it closes its streams: a stream that ends without that tells
that its process was killed.

A message is a header, a text (dtype and shape, or a cause) and the bytes of the elements.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fl_dist.deadline import Deadline
from fl_dist.errors import PeerError
from fl_dist.host_arrays import HostArray, empty

__all__ = ["Message", "Sockets"]

HEAD = struct.Struct("<BxHIIQ")  # kind, bytes of the text, channel, tag, bytes of the elements
DATA, ENDED, FAILED = range(3)
_BYTE = np.dtype(np.uint8)
_ALIGNMENT = 64
_FAREWELL = 1.0  # seconds in which all others are told of the end
_LOOK = 0.1  # seconds between two looks at failures while a stream is full
KILLED = "its process was killed, or its connection broke"


class Message(NamedTuple):
    """number: order of arrival; text: dtype and shape; elements: their bytes."""

    number: int
    text: str
    elements: HostArray


class Sockets:
    """The streams of one rank to all others; ranks are those of the world.

    failure   the rank whose failure ended the world, and its cause; None while all is well
    gone      ranks that have ended, each with the reason
    has_left  whether this rank has said goodbye
    """

    def __init__(self, rank: int, streams: Mapping[int, socket.socket]) -> None:
        self.rank = rank
        self.failure: tuple[int, str] | None = None
        self.gone: dict[int, str] = {}
        self._streams = {peer: _Stream(stream) for peer, stream in streams.items()}
        self._changed = threading.Condition()
        self._inbox: dict[tuple[int, int, int], deque[Message]] = {}  # src, tag, channel
        self._numbers = itertools.count()
        self.has_left = False
        self._all_told = threading.Event()
        self._reader = threading.Thread(target=self._read, name="fl_dist reader", daemon=True)
        self._reader.start()

    # ---- messages

    def send(
        self, dst: int, tag: int, channel: int, text: str, elements: HostArray, deadline: Deadline
    ) -> None:
        """Hand over a message; PeerError when ``dst`` is gone."""
        self.check([dst], deadline)
        raw = text.encode()
        raw += b" " * (-len(raw) % _ALIGNMENT)  # for the elements behind it
        head = HEAD.pack(DATA, len(raw), channel, tag, elements.nbytes) + raw
        parts = [memoryview(head)]
        if elements.nbytes:
            parts.append(memoryview(elements.reshape(-1).view(_BYTE)))
        try:
            self._streams[dst].send(parts, lambda: self.check([dst], deadline), deadline)
        except OSError as error:
            with self._changed:  # the reader may be about to learn why
                self._changed.wait_for(lambda: dst in self.gone or self.failure is not None, 0.5)
            self.check([dst], deadline)
            raise PeerError(deadline.where, dst, f"its connection broke: {error}") from None

    def receive(
        self, sources: Sequence[int], tag: int, channel: int, deadline: Deadline
    ) -> tuple[int, Message]:
        """The message of one of ``sources`` that came first, and its source."""
        with self._changed:
            while True:
                src = self._first(sources, tag, channel)
                if src is not None:
                    box = self._inbox[src, tag, channel]
                    message = box.popleft()
                    if not box:
                        del self._inbox[src, tag, channel]
                    return src, message
                self.check(sources, deadline)
                left = deadline.remaining()
                if not left:
                    names = ", ".join(map(str, sources))
                    raise deadline.error(f"a message of rank{'s' * (len(sources) > 1)} {names}")
                self._changed.wait(left)

    def has_come(self, src: int, tag: int, channel: int) -> bool:
        """Whether a message waits; PeerError when none can come any more."""
        if (src, tag, channel) in self._inbox:
            return True
        if src in self.gone or self.failure is not None:
            with self._changed:
                if (src, tag, channel) in self._inbox:
                    return True
                self.check([src], Deadline.past("[probe]"))
        return False

    def _first(self, sources: Sequence[int], tag: int, channel: int) -> int | None:
        waiting = [src for src in sources if (src, tag, channel) in self._inbox]
        if len(waiting) < 2:
            return waiting[0] if waiting else None
        return min(waiting, key=lambda src: self._inbox[src, tag, channel][0].number)

    def check(self, ranks: Iterable[int], deadline: Deadline) -> None:
        """Raise PeerError when it is vain to wait for ``ranks``: one failed, or all are gone."""
        if self.failure is not None:
            raise PeerError(deadline.where, *self.failure)
        if self.gone:
            awaited = list(ranks)
            gone = [rank for rank in awaited if rank in self.gone]
            if gone and len(gone) == len(awaited):
                raise PeerError(deadline.where, gone[0], self.gone[gone[0]])

    # ---- the end

    def leave(self) -> None:
        """Tell the others that the program of this rank has ended."""
        self._say(ENDED, self.rank, "its program ended without taking part")

    def abort(self, cause: str) -> None:
        """Tell the others that this rank has failed. What fails because of another rank passes on
        that rank and its cause."""
        with self._changed:
            if self.failure is None:
                self.failure = (self.rank, cause)
            origin, cause = self.failure
            self._changed.notify_all()
        self._say(FAILED, origin, cause)

    def _say(self, kind: int, origin: int, cause: str) -> None:
        with self._changed:
            said, self.has_left = self.has_left, True
        if said:
            self._all_told.wait(_FAREWELL)  # the process may end behind this call
            return
        text = cause.encode()[:2000]
        farewell = HEAD.pack(kind, len(text), 0, origin, 0) + text
        until = time.monotonic() + _FAREWELL
        for stream in self._streams.values():
            stream.end(farewell, until)
        self._all_told.set()

    # ---- the reader thread

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for src, stream in self._streams.items():
                selector.register(stream.socket, selectors.EVENT_READ, src)
            while selector.get_map():
                for key, _ in selector.select():
                    if not self._take_in(key.data):
                        selector.unregister(key.fileobj)
        for stream in self._streams.values():
            stream.close()

    def _take_in(self, src: int) -> bool:
        """Read from ``src`` what has come; whether there will be more."""
        try:
            found = self._streams[src].receive()
        except OSError:
            self._note_end(src, FAILED, src, KILLED)
            return False
        if found is None:
            return True
        kind, channel, tag, text, elements = found
        if kind != DATA:
            self._note_end(src, kind, tag, text)
            return False
        with self._changed:
            message = Message(next(self._numbers), text, elements)
            self._inbox.setdefault((src, tag, channel), deque()).append(message)
            self._changed.notify_all()
        return True

    def _note_end(self, src: int, kind: int, origin: int, cause: str) -> None:
        with self._changed:
            if kind == FAILED and self.failure is None and not self.has_left:
                self.failure = (origin, cause)
            self.gone[src] = cause
            self._changed.notify_all()


class _Stream:
    """A socket, and the message that is being read from it."""

    def __init__(self, stream: socket.socket) -> None:
        stream.setblocking(False)
        self.socket = stream
        self._lock = threading.Lock()
        self._header = bytearray(HEAD.size)
        self._body: HostArray | None = None
        self._missing = memoryview(self._header)  # what is read next

    def send(self, parts: list[memoryview], look: Callable[[], None], deadline: Deadline) -> None:
        """Write all of ``parts``; ``look`` raises when that has become senseless."""
        if not self._lock.acquire(timeout=min(deadline.remaining(), threading.TIMEOUT_MAX)):
            raise deadline.error("another message to the same rank")
        begun = False
        try:
            while parts:
                try:
                    sent = self.socket.sendmsg(parts)
                except BlockingIOError:
                    if not self._can_write(min(_LOOK, deadline.remaining())):
                        look()
                        if not deadline.remaining():
                            raise deadline.error("a rank that takes in no messages") from None
                    continue
                begun = True
                while parts and sent >= len(parts[0]):
                    sent -= len(parts.pop(0))
                if sent:
                    parts[0] = parts[0][sent:]
        except BaseException:
            if begun and parts:  # half a message: nothing that follows could be read
                with contextlib.suppress(OSError):
                    self.socket.shutdown(socket.SHUT_RDWR)
            raise
        finally:
            self._lock.release()

    def _can_write(self, seconds: float) -> bool:
        """Whether there is room for more, now or within so many seconds."""
        poll = select.poll()
        try:
            poll.register(self.socket, select.POLLOUT)
        except ValueError:  # closed by the reader thread, since all others are gone
            raise ConnectionError("the stream is closed") from None
        return bool(poll.poll(1000 * seconds))

    def end(self, farewell: bytes, until: float) -> None:
        """Write ``farewell`` if that is possible before ``until``, then end this direction."""
        free = self._lock.acquire(timeout=max(0.0, until - time.monotonic()))
        try:
            with contextlib.suppress(OSError):
                if free and self._can_write(max(0.0, until - time.monotonic())):
                    self.socket.send(farewell)
                self.socket.shutdown(socket.SHUT_WR)
        finally:
            if free:
                self._lock.release()

    def close(self) -> None:
        self.socket.close()

    def receive(self) -> tuple[int, int, int, str, HostArray] | None:
        """The next message (kind, channel, tag, text, elements) if it has come as a whole. Raises
        OSError at the end of the stream."""
        while True:
            while self._missing:
                try:
                    count = self.socket.recv_into(self._missing)
                except BlockingIOError:
                    return None
                if not count:
                    raise ConnectionError("the stream ended")
                self._missing = self._missing[count:]
            if self._body is None:
                _, texts, _, _, size = HEAD.unpack(self._header)
                body = self._body = empty(texts + size, _BYTE)
                self._missing = memoryview(body)
                continue
            kind, texts, channel, tag, _ = HEAD.unpack(self._header)
            body, self._body, self._missing = self._body, None, memoryview(self._header)
            return kind, channel, tag, body[:texts].tobytes().decode().rstrip(), body[texts:]
