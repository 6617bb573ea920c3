"""How the ranks of a world connect: a socket between every two of them.

Every rank brings a *card* to the rendezvous: its host, and the addresses of its listening sockets.
Then it connects to all lower ranks, and all higher ones connect to it: by Unix sockets within a
host, by TCP between hosts. A rank that connects shows a secret that stands on the card alone.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, PeerError
from fl_dist.rank_info import RankInfo
from fl_dist.store import open_store
from fl_dist.store.rendezvous import rendezvous

__all__ = ["Card", "connect", "share_descriptor"]

SECRET = 16  # bytes
HELLO = struct.Struct(f"!I{SECRET}s")  # rank, secret of the other


@dataclass(frozen=True)
class Card:
    """What a rank tells the others.

    host    equal on ranks that reach one another by Unix sockets
    local   address of its Unix socket
    remote  address of its TCP socket, where the job has several hosts
    secret  what a rank shows that connects
    """

    host: str
    local: str
    remote: tuple[str, int] | None
    secret: str
    byteorder: str = sys.byteorder


def connect(info: RankInfo, deadline: Deadline) -> tuple[dict[int, socket.socket], list[Card]]:
    """A connected socket to every other rank, and the cards of all ranks."""
    with contextlib.ExitStack() as stack:
        store = open_store(
            info.store,
            info.token,
            info.generation,
            server=info.rank == 0,
            timeout=deadline.remaining(),
        )
        stack.enter_context(store)  # rank 0 closes it when all have shown that they read the cards
        listeners = stack.enter_context(_Listeners(info))
        mine = json.dumps(asdict(listeners.card)).encode()
        found = rendezvous(store, info, "processes", mine, deadline.remaining())
        cards = [_read_card(card) for card in found]
        for rank, card in enumerate(cards):
            if card.byteorder != sys.byteorder:
                raise DistError(
                    f"{deadline.where}: rank {rank} runs on a {card.byteorder}-endian machine, "
                    f"this rank on a {sys.byteorder}-endian one"
                )
        return _streams(info.rank, cards, listeners, deadline), cards


def _read_card(text: bytes) -> Card:
    found = json.loads(text)
    found["remote"] = found["remote"] and tuple(found["remote"])
    return Card(**found)


# ---- sockets -------------------------------------------------------------------------------------


class _Listeners:
    """The listening sockets of this rank; between hosts only where the job has several."""

    def __init__(self, info: RankInfo) -> None:
        self._stack = contextlib.ExitStack()
        local, address = _listen_here(self._stack)
        self.local = local
        self.remote: socket.socket | None = None
        remote = None
        if info.local_size < info.world_size:
            self.remote, remote = _listen_everywhere(info.store)
            self._stack.callback(self.remote.close)
        secret = secrets.token_hex(SECRET)
        self.card = Card(f"{_host()}/{info.node}", address, remote, secret)

    def __enter__(self) -> _Listeners:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def sockets(self) -> Iterator[socket.socket]:
        yield self.local
        if self.remote is not None:
            yield self.remote


def _listen_here(stack: contextlib.ExitStack) -> tuple[socket.socket, str]:
    """A Unix socket and its address: on Linux a name without a file, elsewhere a file of a folder
    that only this user may enter."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stack.callback(listener.close)
    if sys.platform.startswith("linux"):
        address = f"\0fl_dist/{secrets.token_hex(16)}"
    else:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fl"))
        address = str(Path(folder) / "s")
    listener.bind(address)
    listener.listen(1024)
    return listener, address


def _listen_everywhere(store: str) -> tuple[socket.socket, tuple[str, int]]:
    """A TCP socket on all addresses, and the one by which other hosts reach it: FL_DIST_HOST, or
    the address that this host uses towards the store."""
    host = os.environ.get("FL_DIST_HOST") or _address_towards(store)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server(("", 0), family=family, backlog=1024)
    return listener, (host, listener.getsockname()[1])


def _address_towards(store: str) -> str:
    target, _, port = store.removeprefix("tcp://").rpartition(":")
    if store.startswith("tcp:") and target:
        with contextlib.suppress(OSError):
            family, kind, _, _, where = socket.getaddrinfo(
                target.strip("[]"), int(port), type=socket.SOCK_DGRAM
            )[0]
            with socket.socket(family, kind) as probe:
                probe.connect(where)  # sends nothing
                return str(probe.getsockname()[0])
    with contextlib.suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def _host() -> str:
    """Equal for processes that reach one another by Unix sockets: the boot of the system, and its
    network namespace (of a container)."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    return socket.gethostname()


def _streams(
    rank: int, cards: Sequence[Card], listeners: _Listeners, deadline: Deadline
) -> dict[int, socket.socket]:
    """Connections to lower ranks, and from higher ones."""
    streams: dict[int, socket.socket] = {}
    try:
        for other in range(rank):
            streams[other] = _dial(rank, cards[rank], other, cards[other], deadline)
        here = cards[rank].host
        for listener in listeners.sockets():
            local = listener is listeners.local
            higher = range(rank + 1, len(cards))
            awaited = {r for r in higher if (cards[r].host == here) == local}
            _accept(listener, awaited, cards[rank].secret, streams, deadline)
    except BaseException:
        for stream in streams.values():
            stream.close()
        raise
    return streams


def _dial(rank: int, mine: Card, other_rank: int, other: Card, deadline: Deadline) -> socket.socket:
    if other.host == mine.host:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address: str | tuple[str, int] = other.local
    else:
        assert other.remote is not None
        family = socket.AF_INET6 if ":" in other.remote[0] else socket.AF_INET
        stream, address = socket.socket(family, socket.SOCK_STREAM), other.remote
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        stream.settimeout(max(deadline.remaining(), 0.01))
        stream.connect(address)
        stream.sendall(HELLO.pack(rank, bytes.fromhex(other.secret)))
    except OSError as error:
        stream.close()
        how = address if isinstance(address, tuple) else "a Unix socket"
        raise PeerError(
            deadline.where,
            other_rank,
            f"no connection to {how}: {error}; FL_DIST_HOST names the address of a host that has "
            "several",
        ) from None
    return stream


def _accept(
    listener: socket.socket,
    awaited: set[int],
    secret: str,
    streams: dict[int, socket.socket],
    deadline: Deadline,
) -> None:
    """Take in the connections of ``awaited``; others are sent away."""
    while not awaited <= streams.keys():
        missing = sorted(awaited - streams.keys())
        try:
            listener.settimeout(max(deadline.remaining(), 0.01))
            stream, _ = listener.accept()
            stream.settimeout(max(min(10.0, deadline.remaining()), 0.01))
            hello = _read(stream, HELLO.size)
        except TimeoutError:
            if deadline.remaining():
                continue
            raise deadline.error(f"connections of rank {', '.join(map(str, missing))}") from None
        except OSError:
            continue
        rank, shown = HELLO.unpack(hello)
        if rank in missing and hmac.compare_digest(shown, bytes.fromhex(secret)):
            if stream.family != socket.AF_UNIX:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            streams[rank] = stream
        else:
            stream.close()


def _read(stream: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = stream.recv(count - len(found))
        if not part:
            raise ConnectionError("the other side went away")
        found += part
    return found


def share_descriptor(
    make: Callable[[], int], streams: dict[int, socket.socket], members: Sequence[int], rank: int
) -> int:
    """A file descriptor that the lowest of ``members`` makes and the others get from it."""
    first = min(members)
    if rank != first:
        _, fds, _, _ = socket.recv_fds(streams[first], 1, 1)
        if not fds:
            raise ConnectionError(f"rank {first} sent no shared memory")
        return fds[0]
    fd = make()
    for other in members:
        if other != rank:
            socket.send_fds(streams[other], [b"A"], [fd])
    return fd
