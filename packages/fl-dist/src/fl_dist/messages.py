"""Receiving: from one rank, from any rank, and looking without taking."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, DistTimeoutError, PeerError
from fl_dist.values import beside
from fl_tensor import Tensor

if TYPE_CHECKING:
    from fl_dist.transport import Transport

Address = tuple[int, int, int]  # src, tag, channel

_SHORTEST, _LONGEST = 2e-5, 2e-3  # seconds between two looks


class KeptMessages:
    """Messages that a probe took from the transport, for the receives that follow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Address, deque[Tensor]] = {}

    def put(self, address: Address, x: Tensor) -> None:
        with self._lock:
            self._kept.setdefault(address, deque()).append(x)

    def take(self, address: Address) -> Tensor | None:
        if not self._kept:
            return None
        with self._lock:
            waiting = self._kept.get(address)
            if not waiting:
                return None
            x = waiting.popleft()
            if not waiting:
                del self._kept[address]
            return x

    def __contains__(self, address: Address) -> bool:
        return address in self._kept


def receive(
    comm: Transport, src: int | None, tag: int, deadline: Deadline, like: Tensor | None = None
) -> Tensor | tuple[int, Tensor]:
    """The next message of ``src``, or of any rank and that rank's number."""
    if src is None:
        sender, x = comm.do_recv_any(tag, comm.channel, deadline)
        return sender, placed(x, sender, like, deadline)
    kept = comm._take_kept(src, tag, comm.channel)
    x = comm.do_recv(src, tag, comm.channel, deadline, like) if kept is None else kept
    return placed(x, src, like, deadline)


def placed(x: Tensor, src: int, like: Tensor | None, deadline: Deadline) -> Tensor:
    if like is None:
        return x
    if x.dtype is not like.dtype or x.shape != like.shape:
        raise DistError(
            f"{deadline.where}: rank {src} sent {x.dtype} {x.shape}, but like= promises "
            f"{like.dtype} {like.shape}"
        )
    return beside(like, x)


def has_come(comm: Transport, src: int | None, tag: int) -> bool:
    """Whether a receive of that address, or of any rank, would return at once."""
    if src is not None:
        return comm.do_probe(src, tag, comm.channel)
    return any(comm.do_probe(r, tag, comm.channel) for r in _others(comm))


def probe(comm: Transport, src: int, tag: int, channel: int) -> bool:
    """A ``do_recv`` that does not wait; its message is kept."""
    address = (src, tag, channel)
    if address in comm._kept:
        return True
    try:
        x = comm.do_recv(src, tag, channel, Deadline.past("[probe]"))
    except DistTimeoutError:
        return False
    comm._kept.put(address, x)
    return True


def recv_any(comm: Transport, tag: int, channel: int, deadline: Deadline) -> tuple[int, Tensor]:
    """Looks at one rank after the other, beginning behind the one that was served last."""
    pause = _SHORTEST
    while True:
        gone: PeerError | None = None
        waiting = False
        for src in _others(comm, comm._served_last):
            try:
                found = comm.do_probe(src, tag, channel)
            except PeerError as error:
                gone = gone or error
                continue
            if found:
                comm._served_last = src
                kept = comm._take_kept(src, tag, channel)
                return src, comm.do_recv(src, tag, channel, deadline) if kept is None else kept
            waiting = True
        if not waiting and gone is not None:
            raise gone
        if not deadline.remaining():
            raise deadline.error("a message of any rank")
        time.sleep(min(pause, deadline.remaining()))
        pause = min(2 * pause, _LONGEST)


def _others(comm: Transport, behind: int = -1) -> list[int]:
    n = comm.world_size
    ranks = [(behind + 1 + i) % n for i in range(n)]
    return [r for r in ranks if r != comm.rank]
