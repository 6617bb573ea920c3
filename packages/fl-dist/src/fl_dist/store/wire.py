"""The protocol of a ``TCPStore``: the handshake, requests and replies.

Server: MAGIC, nonce. Client: MAGIC, nonce, generation, proof. Server: OK with its own proof, or
a refusal. A proof is an HMAC-SHA256 under the token over both nonces, so the token itself never
travels. Then requests (operation, lengths, number; key, value) and replies (status, length; text).
"""

from __future__ import annotations

import hmac
import socket
import struct

from fl_dist.errors import ArgumentError

MAGIC = b"fl-dist store 1\n"
NONCE = 32
PROOF = 32
HELLO = struct.Struct(f">{len(MAGIC)}s{NONCE}s")
ANSWER = struct.Struct(f">{len(MAGIC)}s{NONCE}sQ{PROOF}s")
REQUEST = struct.Struct(">cHId")  # operation, bytes of key and value, timeout or summand
REPLY = struct.Struct(">cI")

SET, GET, ADD, DELETE = b"S", b"G", b"A", b"D"
OK, TIMEOUT, REFUSED, FULL = b"K", b"T", b"R", b"F"

#: Seconds in which the other side has to have said who it is.
HANDSHAKE = 10.0


def proof(token: str, side: bytes, *parts: bytes) -> bytes:
    """What only a holder of the token can say after these nonces."""
    return hmac.new(token.encode(), b"\n".join((side, *parts)), "sha256").digest()


def address(url: str) -> tuple[str, int]:
    """Host and port of ``tcp://host:port`` or ``tcp://[v6]:port``; ArgumentError otherwise."""
    host, _, port = url.removeprefix("tcp:").removeprefix("//").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ArgumentError(f"[store] {url!r}: expected tcp://host:port")
    return host, int(port)


def read(connection: socket.socket, count: int) -> bytes:
    """Exactly ``count`` bytes; ConnectionError where the other side ends before."""
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 16))
        if not part:
            raise ConnectionError("the other side closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
