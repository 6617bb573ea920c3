"""The server of a ``TCPStore``: one thread, a table in memory, bounded in every direction."""

from __future__ import annotations

import hmac
import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from ipaddress import ip_address

from fl_dist.store import wire
from fl_dist.store.store import KEY_LIMIT, VALUE_LIMIT

LOG = logging.getLogger("fl_dist.store")

#: Connections that have proved the token, those that have not (the rest waits until one of them
#: does or is dropped), and bytes of all keys and values.
MEMBERS, STRANGERS, TABLE_LIMIT = 8192, 256, 256 << 20


class Connection:
    """One client: what it has sent so far, what it has still to get."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self.socket = connection
        self.peer = peer
        self.nonce = os.urandom(wire.NONCE)
        self.member = False
        self.since = time.monotonic()
        self.received = bytearray()
        self.unsent = bytearray()
        self.waiting: tuple[str, float] | None = None  # a key, and until when


class Server:
    """Serves until ``close``. Raises OSError where the port is taken."""

    def __init__(self, host: str, port: int, token: str, generation: int) -> None:
        self._token = token
        self._generation = generation
        self._table: dict[str, bytes] = {}
        self._size = 0
        self._connections: set[Connection] = set()
        self._listener = listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._admitting = False
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._serve, name="fl_dist.store", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and every connection. Idempotent."""
        if self._thread.is_alive():
            self._wake.send(b"x")
            self._thread.join()
        self._wake.close()

    def _serve(self) -> None:
        while True:
            self._admit()
            for key, events in self._selector.select(self._patience()):
                if key.data is None:
                    return self._end()
                if key.data is self._listener:
                    self._accept()
                elif key.data in self._connections:
                    self._attend(key.data, events)
            self._expire()

    def _end(self) -> None:
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        self._listener.close()
        self._woken.close()

    def _patience(self) -> float | None:
        """Seconds until something expires; None while nothing can."""
        ends = [c.waiting[1] for c in self._connections if c.waiting]
        ends += [c.since + wire.HANDSHAKE for c in self._connections if not c.member]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _expire(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            if connection.waiting and connection.waiting[1] <= now:
                connection.waiting = None
                self._reply(connection, wire.TIMEOUT)
            if not connection.member and connection.since + wire.HANDSHAKE <= now:
                self._ignore(connection, "it did not say who it is")

    # ---- connections -----------------------------------------------------------------------------

    def _admit(self) -> None:
        """Accept while there are not too many strangers; otherwise leave the others in the queue
        of the listening socket."""
        strangers = sum(not c.member for c in self._connections)
        if self._admitting != (strangers < STRANGERS):
            self._admitting = not self._admitting
            if self._admitting:
                self._selector.register(self._listener, selectors.EVENT_READ, self._listener)
            else:
                self._selector.unregister(self._listener)

    def _accept(self) -> None:
        try:
            accepted, peer = self._listener.accept()
        except OSError as error:  # gone again, or out of file descriptors
            LOG.warning("a connection could not be accepted: %s", error)
            time.sleep(0.01)
            return
        accepted.setblocking(False)
        connection = Connection(accepted, f"{peer[0]}:{peer[1]}")
        if len(self._connections) >= MEMBERS + STRANGERS:
            LOG.warning("refused %s: too many connections", connection.peer)
            accepted.close()
            return
        self._connections.add(connection)
        self._selector.register(accepted, selectors.EVENT_READ, connection)
        self._send(connection, wire.HELLO.pack(wire.MAGIC, connection.nonce))

    def _drop(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self._selector.unregister(connection.socket)
            connection.socket.close()

    def _ignore(self, connection: Connection, why: str) -> None:
        LOG.warning("ignored a connection from %s: %s", connection.peer, why)
        self._drop(connection)

    def _attend(self, connection: Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(connection, b"")
            if events & selectors.EVENT_READ:
                part = connection.socket.recv(1 << 16)
                if not part:
                    return self._left(connection)
                connection.received += part
        except BlockingIOError:
            return None
        except OSError:
            return self._left(connection)
        while connection in self._connections and self._step(connection):
            pass

    def _left(self, connection: Connection) -> None:
        if connection.member:
            self._drop(connection)
        else:
            self._ignore(connection, "it left without saying who it is")

    def _send(self, connection: Connection, content: bytes) -> None:
        connection.unsent += content
        try:
            while connection.unsent:
                del connection.unsent[: connection.socket.send(connection.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            return self._drop(connection)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        self._selector.modify(connection.socket, events, connection)

    def _reply(self, connection: Connection, status: bytes, content: bytes = b"") -> None:
        self._send(connection, wire.REPLY.pack(status, len(content)) + content)

    # ---- what they say ---------------------------------------------------------------------------

    def _step(self, connection: Connection) -> bool:
        """Take one whole message off what was received; whether there was one."""
        return (self._request if connection.member else self._handshake)(connection)

    def _handshake(self, connection: Connection) -> bool:
        received = connection.received
        if received[: len(wire.MAGIC)] != wire.MAGIC[: len(received)]:
            self._ignore(connection, f"it sent {bytes(received[:40])!r}")
            return False
        if len(received) < wire.ANSWER.size:
            return False
        _, nonce, generation, proof = wire.ANSWER.unpack_from(received)
        del received[: wire.ANSWER.size]
        parts = connection.nonce, nonce, b"%d" % generation
        if not hmac.compare_digest(proof, wire.proof(self._token, b"client", *parts)):
            return self._refuse(
                connection,
                "this process has another token than the one who serves: FL_DIST_TOKEN differs "
                "between the ranks, or the port belongs to another job",
            )
        if generation != self._generation:
            return self._refuse(
                connection,
                f"generation {self._generation} of the job is served here, this process is of "
                f"generation {generation}: one of the two is left over from before a restart",
            )
        connection.member = True
        self._reply(connection, wire.OK, wire.proof(self._token, b"server", *parts))
        return True

    def _refuse(self, connection: Connection, why: str) -> bool:
        LOG.warning("refused %s: %s", connection.peer, why)
        self._reply(connection, wire.REFUSED, why.encode())
        self._drop(connection)
        return False

    def _request(self, connection: Connection) -> bool:
        received = connection.received
        if connection.waiting or len(received) < wire.REQUEST.size:
            return False
        operation, key_size, value_size, number = wire.REQUEST.unpack_from(received)
        if key_size > KEY_LIMIT or value_size > VALUE_LIMIT or operation not in self._operations:
            self._ignore(connection, "its request is none of a store")
            return False
        start, end = wire.REQUEST.size, wire.REQUEST.size + key_size
        if len(received) < end + value_size:
            return False
        key, value = received[start:end].decode(), bytes(received[end : end + value_size])
        del received[: end + value_size]
        self._operations[operation](self, connection, key, value, number)
        return True

    def _set(self, connection: Connection, key: str, value: bytes, number: float) -> None:
        if self._put(connection, key, value):
            self._reply(connection, wire.OK)

    def _get(self, connection: Connection, key: str, value: bytes, number: float) -> None:
        if key in self._table:
            self._reply(connection, wire.OK, self._table[key])
        else:
            connection.waiting = key, time.monotonic() + number

    def _add(self, connection: Connection, key: str, value: bytes, number: float) -> None:
        try:
            count = int(self._table.get(key, b"0")) + int(value)
        except ValueError:
            return self._reply(connection, wire.REFUSED, f"{key!r} is no counter".encode())
        if self._put(connection, key, b"%d" % count):
            self._reply(connection, wire.OK, b"%d" % count)

    def _delete(self, connection: Connection, key: str, value: bytes, number: float) -> None:
        for found in [k for k in self._table if k.startswith(key)]:
            self._size -= len(found) + len(self._table.pop(found))
        self._reply(connection, wire.OK)

    _operations: dict[bytes, Callable[[Server, Connection, str, bytes, float], None]] = {
        wire.SET: _set, wire.GET: _get, wire.ADD: _add, wire.DELETE: _delete,
    }  # fmt: skip

    def _put(self, connection: Connection, key: str, value: bytes) -> bool:
        """Write, and answer who waits; False, with a reply, where the table is full."""
        old = self._table.get(key)
        growth = len(value) - len(old) if old is not None else len(key) + len(value)
        if self._size + growth > TABLE_LIMIT:
            self._reply(connection, wire.FULL, b"%d" % TABLE_LIMIT)
            return False
        self._size += growth
        self._table[key] = value
        for one in list(self._connections):
            if one.waiting and one.waiting[0] == key:
                one.waiting = None
                self._reply(one, wire.OK, value)
        return True


def listen(host: str, port: int) -> socket.socket:
    """A listening socket: on the loopback address where that is the host, otherwise on all of
    this machine, because a name may lead here through a gateway (a service of Kubernetes)."""
    family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where if is_loopback(str(where[0])) else ("", port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(number: str) -> bool:
    """Whether an address leads to this machine only."""
    return ip_address(number.partition("%")[0]).is_loopback
