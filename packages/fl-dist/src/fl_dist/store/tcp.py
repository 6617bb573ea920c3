"""``tcp://host:port``: a store in the memory of the process that serves it (rank 0)."""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import ClassVar

from fl_dist.errors import DistTimeoutError
from fl_dist.store import wire
from fl_dist.store.server import Server
from fl_dist.store.store import Store, StoreError, check_key, check_value

#: Seconds that an answer may take beyond the time that was asked for.
SLACK = 30.0


class TCPStore(Store):
    """A client, and on the rank that serves the server as well.

    Each call takes an idle connection or opens one, so that threads do not wait for one another.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self, host: str, port: int, token: str, generation: int) -> None:
        self._address = (host, port)
        self._token = token
        self._generation = generation
        self._server: Server | None = None
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, url: str, token: str, generation: int, server: bool, timeout: float) -> TCPStore:
        host, port = wire.address(url)
        serving = start(url, host, port, token, generation) if server else None
        store = cls(host, serving.port if serving else port, token, generation)
        store._server = serving
        try:
            store._idle.append(store._connect(timeout))
        except BaseException:
            store.close()
            raise
        return store

    @property
    def url(self) -> str:
        """What the others open: the port is known where port 0 was asked for."""
        host, port = self._address
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"

    def set(self, key: str, value: bytes) -> None:
        self._ask(wire.SET, check_key(key), check_value(key, value))

    def get(self, key: str, timeout: float) -> bytes:
        return self._ask(wire.GET, check_key(key), wait=max(0.0, timeout))

    def add(self, key: str, n: int) -> int:
        return int(self._ask(wire.ADD, check_key(key), b"%d" % n))

    def delete(self, prefix: str) -> None:
        self._ask(wire.DELETE, check_key(prefix) if prefix else b"")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._server is not None:
            self._server.close()

    def _ask(self, operation: bytes, key: bytes, value: bytes = b"", wait: float = 0.0) -> bytes:
        request = wire.REQUEST.pack(operation, len(key), len(value), wait) + key + value
        with self._connection() as connection:
            connection.settimeout(wait + SLACK)
            connection.sendall(request)
            status, content = reply(connection)
        if status == wire.TIMEOUT:
            raise DistTimeoutError(
                f"[store] gave up after {wait:g} s waiting for {key.decode()!r} in {self.url}"
            )
        if status == wire.FULL:
            raise StoreError(
                f"[store] {self.url} is full: its keys and values may have {int(content)} bytes"
            )
        if status != wire.OK:
            raise StoreError(f"[store] {self.url}: {content.decode()}")
        return content

    @contextlib.contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        """An idle connection or a new one, given back where nothing failed."""
        with self._lock:
            if self._closed:
                raise StoreError(f"[store] {self.url} was closed by this process")
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._connect(SLACK)
            yield connection
        except (DistTimeoutError, StoreError):
            raise
        except OSError as error:
            if connection is not None:
                connection.close()
            raise StoreError(
                f"[store] {self.url} is gone: the process that serves it (rank 0 or the launcher) "
                f"ended or cannot be reached ({error})"
            ) from error
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self, timeout: float) -> socket.socket:
        """A connection that has proved the token to the server, and the server to us."""
        end, nap = time.monotonic() + timeout, 0.01
        while True:
            left = end - time.monotonic()
            why = "it said nothing"
            try:
                connection = socket.create_connection(self._address, max(0.1, min(left, 10.0)))
                try:
                    if self._shake_hands(connection):
                        return connection
                    connection.close()
                except BaseException:
                    connection.close()
                    raise
            except socket.gaierror as error:
                raise StoreError(f"[store] {self.url}: unknown host ({error.strerror})") from error
            except (DistTimeoutError, StoreError):
                raise
            except OSError as error:
                why = str(error)
            if left <= 0:
                raise DistTimeoutError(
                    f"[store] gave up after {timeout:g} s: nobody serves {self.url} ({why}); rank "
                    "0 has not started, or a firewall is between"
                )
            time.sleep(min(nap, max(0.0, left)))
            nap = min(2 * nap, 0.5)

    def _shake_hands(self, connection: socket.socket) -> bool:
        """Prove the token to the server, and have it prove it; False where it says nothing yet
        (many others are before us) or leaves in between."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(wire.HANDSHAKE)
        try:
            greeting = wire.read(connection, wire.HELLO.size)
        except (TimeoutError, ConnectionError):
            return False
        magic, theirs = wire.HELLO.unpack(greeting)
        if magic != wire.MAGIC:
            raise StoreError(
                f"[store] {self.url} answers, but not as a store of this version: {greeting[:40]!r}"
            )
        mine = os.urandom(wire.NONCE)
        parts = theirs, mine, b"%d" % self._generation
        proof = wire.proof(self._token, b"client", *parts)
        connection.sendall(wire.ANSWER.pack(wire.MAGIC, mine, self._generation, proof))
        status, content = reply(connection)
        if status != wire.OK:
            raise StoreError(f"[store] {self.url} refused this process: {content.decode()}")
        if not hmac.compare_digest(content, wire.proof(self._token, b"server", *parts)):
            raise StoreError(f"[store] {self.url} does not know the token of this job")
        return True


def start(url: str, host: str, port: int, token: str, generation: int) -> Server | None:
    """The server; None where the port is taken, perhaps by the launcher of this job, which the
    handshake will show."""
    try:
        return Server(host, port, token, generation)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        raise StoreError(
            f"[store] cannot serve {url}: {error.strerror or error}; the host of the URL is to be "
            "the one of rank 0"
        ) from error


def reply(connection: socket.socket) -> tuple[bytes, bytes]:
    """Status and content of one answer."""
    status, length = wire.REPLY.unpack(wire.read(connection, wire.REPLY.size))
    return status, wire.read(connection, length)
