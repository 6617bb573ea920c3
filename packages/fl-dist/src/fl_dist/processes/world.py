"""The connections and the shared memory of one rank, for all communicators of its world."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence

from fl_dist.deadline import Deadline
from fl_dist.errors import DistError
from fl_dist.host_arrays import empty, storage
from fl_dist.processes import arena, fence
from fl_dist.processes.arena import Arena, Look
from fl_dist.processes.connections import connect, share_descriptor
from fl_dist.processes.sockets import Sockets
from fl_dist.rank_info import RankInfo
from fl_tensor import uint8

__all__ = ["RESERVED", "World", "join"]

#: Tag of the message that the memory of an arena is there.
RESERVED = 0xFF02


class World:
    """The place of one rank.

    neighbours  the ranks of this host
    channels    how many channels have been given away: 0 to the world, others to its groups
    """

    def __init__(
        self, rank: int, size: int, neighbours: Sequence[int], sockets: Sockets, memory: int | None
    ) -> None:
        self.rank = rank
        self.size = size
        self.neighbours = list(neighbours)
        self.sockets = sockets
        self.channels = 1
        self._memory = memory  # descriptor of the file in which the arenas of this host lie
        atexit.register(sockets.leave)

    def end(self) -> None:
        """Say goodbye to the other ranks."""
        self.sockets.leave()
        self._release()

    def abort(self, cause: str) -> None:
        """Tell the other ranks that this one has failed. May be called from any thread."""
        self.sockets.abort(cause)
        self._release()

    def _release(self) -> None:
        atexit.unregister(self.sockets.leave)
        memory, self._memory = self._memory, None  # arenas that are mapped stay
        if memory is not None:
            os.close(memory)

    def open_arena(
        self, ranks: Sequence[int], channel: int, look: Look, deadline: Deadline
    ) -> Arena | None:
        """The arena of ``ranks``, of which each calls this; None where they are not all here.

        The place of an arena in the file follows from the channel and the lowest rank: no two
        groups have both in common. Parts of the file that nobody has used take no memory.
        """
        if self._memory is None or len(ranks) < 2 or not set(ranks) <= set(self.neighbours):
            return None
        first = min(ranks)
        number = channel * self.size + first if channel else 0
        offset = number * arena.size(len(self.neighbours))
        if self.rank == first:
            self._reserve(self._memory, offset, ranks, channel, deadline)
        else:
            _, verdict = self.sockets.receive([first], RESERVED, channel, deadline)
            if verdict.text:
                raise DistError(f"{deadline.where}: {verdict.text}")
        may_spin = len(self.neighbours) <= cores()
        place = ranks.index(self.rank)
        return Arena(self._memory, offset, place, len(ranks), look, may_spin)

    def _reserve(
        self, memory: int, offset: int, ranks: Sequence[int], channel: int, deadline: Deadline
    ) -> None:
        """Allocate the memory of an arena, and tell the others whether that was possible."""
        failure = ""
        try:
            arena.reserve(memory, offset, len(ranks))
        except DistError as error:
            failure = str(error)
        nothing = empty(0, storage(uint8))
        for other in ranks:
            if other != self.rank:
                self.sockets.send(other, RESERVED, channel, failure, nothing, deadline)
        if failure:
            raise DistError(f"{deadline.where}: {failure}")


def join(info: RankInfo, deadline: Deadline) -> World:
    """Meet the other ranks: connections to all, and one file of memory for those of this host."""
    if info.world_size == 1:
        return World(0, 1, [0], Sockets(0, {}), None)
    streams, cards = connect(info, deadline)
    here = cards[info.rank].host
    neighbours = [rank for rank, card in enumerate(cards) if card.host == here]
    memory = None
    try:
        if len(neighbours) > 1 and fence.available:
            memory = share_descriptor(arena.create, streams, neighbours, info.rank)
    except OSError as error:
        for stream in streams.values():
            stream.close()
        raise DistError(f"{deadline.where}: no shared memory: {error}") from error
    return World(info.rank, info.world_size, neighbours, Sockets(info.rank, streams), memory)


def cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
