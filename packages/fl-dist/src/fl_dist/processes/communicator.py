"""The communicator whose ranks are processes."""

from __future__ import annotations

import contextlib
import math
import socket
from collections.abc import Sequence
from typing import ClassVar

import fl_tensor as ft
from fl_dist import derived
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, PeerError
from fl_dist.host_arrays import HostArray, empty, flat, reusable, storage, tensor, zeros
from fl_dist.processes import ring
from fl_dist.processes.arena import Arena
from fl_dist.processes.sockets import Message
from fl_dist.processes.world import World, join
from fl_dist.rank_info import RankInfo
from fl_dist.values import fresh
from fl_tensor import DType, Tensor

__all__ = ["ProcessesCommunicator"]

#: Tag of ring.PARTIAL, and behind it of ring.RESULT: above those of the derived collectives.
RING = 0xFF00


class ProcessesCommunicator(Communicator):
    """One rank of a world, or of a part of it: ``ranks`` are those of the world, in their order.

    Reductions are in rank order, to the bit those of ``threads``.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "processes"
    capabilities = frozenset({"agreement", "ordered"})
    native_dtypes = frozenset(
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
        "complex64 complex128".split()
    )

    def __init__(self, world: World, ranks: Sequence[int], channel: int = 0) -> None:
        super().__init__(ranks.index(world.rank), len(ranks))
        self._world = world
        self._ranks = list(ranks)
        self.channel = channel
        self._arena: Arena | None = None

    # ---- beginning and end

    @classmethod
    def offers(cls, world_size: int) -> bool:
        return world_size >= 1 and hasattr(socket, "AF_UNIX")

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> ProcessesCommunicator:
        """Ranks of one host meet over Unix sockets and shared memory, others over TCP. The store of
        ``info`` is needed until all have met. See ``Communicator.join``."""
        where = f"[join] rank {info.rank} of {info.world_size}"
        deadline = Deadline(timeout, where, default=cls.timeout)
        communicator = cls(join(info, deadline), range(info.world_size))
        try:
            communicator._open_arena(deadline)
        except BaseException as error:
            communicator.abort(f"it could not join: {error}")
            raise
        return communicator

    def do_close(self, deadline: Deadline) -> None:
        self._close_arena()
        if self.channel == 0:
            self._world.end()

    def abort(self, cause: str) -> None:
        super().abort(cause)
        self._world.abort(cause)

    def check_usable(self, deadline: Deadline) -> None:
        """Where another rank's failure is the reason, it is a PeerError about that rank."""
        try:
            super().check_usable(deadline)
        except DistError:
            sockets = self._world.sockets
            if sockets.failure is None or sockets.has_left:
                raise
            raise PeerError(deadline.where, *sockets.failure) from None

    def do_split(
        self, color: int | None, key: int, deadline: Deadline
    ) -> ProcessesCommunicator | None:
        """A group on the same sockets, with an arena of its own where it is within a host."""
        mine = [-1 if color is None else color, key, self._world.channels]
        found = derived.all_gather(self, ft.asarray(mine, ft.int64), deadline, derived.SPLIT)
        rows = [row.tolist() for row in found]
        # Groups that share two ranks need different channels. Each rank's count only grows, so the
        # largest count among the ranks of this split is new to all of them.
        channel = max(row[2] for row in rows)
        if channel >= 1 << 15:
            raise DistError(
                f"{deadline.where}: a world can be split {1 << 15} times; keep the parts"
            )
        self._world.channels = channel + 1
        if color is None:
            return None
        members = sorted((row[1], r) for r, row in enumerate(rows) if row[0] == color)
        part = type(self)(self._world, [self._ranks[r] for _, r in members], channel)
        part._open_arena(deadline)
        return part

    def _open_arena(self, deadline: Deadline) -> None:
        self._arena = self._world.open_arena(self._ranks, self.channel, self._look, deadline)

    def _close_arena(self) -> None:
        if self._arena is not None:
            with contextlib.suppress(BufferError):  # a thread still waits in it
                self._arena.close()
            self._arena = None

    def _look(self, late: list[int], deadline: Deadline) -> None:
        ranks = [self._ranks[place] for place in late]
        for rank in ranks:
            self._world.sockets.check([rank], deadline)
        if not deadline.remaining():
            names = ", ".join(map(str, ranks))
            raise deadline.error(f"rank{'s' * (len(ranks) > 1)} {names}")

    def buffer(self, shape: Sequence[int], dtype: DType | str = "float32") -> Tensor:
        return zeros(shape, dtype)

    # ---- messages

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        text = " ".join([str(x.dtype), *map(str, x.shape)])
        self._world.sockets.send(self._ranks[dst], tag, channel, text, flat(x), deadline)

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        _, message = self._world.sockets.receive([self._ranks[src]], tag, channel, deadline)
        return _unpacked(message)

    def do_recv_any(self, tag: int, channel: int, deadline: Deadline) -> tuple[int, Tensor]:
        others = [r for r in self._ranks if r != self._world.rank]
        src, message = self._world.sockets.receive(others, tag, channel, deadline)
        return self._ranks.index(src), _unpacked(message)

    def do_probe(self, src: int, tag: int, channel: int) -> bool:
        return self._world.sockets.has_come(self._ranks[src], tag, channel)

    # ---- collectives

    def do_check_consistent(self, fingerprint: int, deadline: Deadline) -> bool:
        if self._arena is None:
            return super().do_check_consistent(fingerprint, deadline)
        return self._arena.agreed(fingerprint, deadline)

    def do_barrier(self, deadline: Deadline) -> None:
        if self._arena is None:
            return super().do_barrier(deadline)
        self._arena.meet(deadline)

    def do_all_reduce(
        self, x: Tensor, op: str, deadline: Deadline, into: Tensor | None = None
    ) -> Tensor:
        if self.world_size == 1:
            return super().do_all_reduce(x, op, deadline)
        own = reusable(into)
        array = flat(x) if own is None else own
        out = empty(array.size, array.dtype) if own is None else own
        self._reduce_all(array, out, op, x.dtype, deadline)
        return tensor(out, x.shape, x.dtype, like=x)

    def do_all_reduce_many(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> list[Tensor]:
        if self.world_size == 1:
            return super().do_all_reduce_many(xs, op, deadline)
        results = list(xs)
        places: dict[DType, list[int]] = {}
        for i, x in enumerate(xs):
            places.setdefault(x.dtype, []).append(i)
        for dtype, of_dtype in places.items():
            packed = _packed([xs[i] for i in of_dtype], dtype)
            self._reduce_all(packed, packed, op, dtype, deadline)
            start = 0
            for i in of_dtype:
                x = xs[i]
                part = packed[start : start + x.size]
                results[i] = tensor(part, x.shape, dtype, like=x)
                start += x.size
        return results

    def _reduce_all(
        self, x: HostArray, out: HostArray, op: str, dtype: DType, deadline: Deadline
    ) -> None:
        if self._arena is not None:
            self._arena.all_reduce(x, out, op, dtype, deadline)
            return
        sockets, channel = self._world.sockets, self.channel
        before = self._ranks[self.rank - 1]
        behind = self._ranks[(self.rank + 1) % self.world_size]

        def send(elements: HostArray, which: int) -> None:
            sockets.send(behind, RING + which, channel, "", elements, deadline)

        def receive(which: int) -> HostArray:
            return sockets.receive([before], RING + which, channel, deadline)[1].elements

        ring.all_reduce(x, out, op, dtype, self.rank, self.world_size, send, receive)

    def do_reduce(self, x: Tensor, op: str, root: int, deadline: Deadline) -> Tensor | None:
        if self._arena is None:
            return super().do_reduce(x, op, root, deadline)
        array = flat(x)
        out = empty(array.size, array.dtype) if self.rank == root else None
        self._arena.reduce(array, out, op, x.dtype, deadline)
        return None if out is None else tensor(out, x.shape, x.dtype, like=x)

    def do_broadcast(self, x: Tensor, root: int, deadline: Deadline) -> Tensor:
        if self._arena is None:
            return super().do_broadcast(x, root, deadline)
        array = flat(x)
        if self.rank == root:
            self._arena.broadcast(array, None, root, deadline)
            return fresh(x)
        out = empty(array.size, array.dtype)
        self._arena.broadcast(array, out, root, deadline)
        return tensor(out, x.shape, x.dtype, like=x)

    def do_all_gather(self, x: Tensor, deadline: Deadline) -> list[Tensor]:
        found = self._gather(x, True, deadline)
        return super().do_all_gather(x, deadline) if found is None else found

    def do_gather(self, x: Tensor, root: int, deadline: Deadline) -> list[Tensor] | None:
        if self._arena is None:
            return super().do_gather(x, root, deadline)
        return self._gather(x, self.rank == root, deadline)

    def _gather(self, x: Tensor, wanted: bool, deadline: Deadline) -> list[Tensor] | None:
        """Every rank's tensor where it is wanted; None where not, and without an arena."""
        if self._arena is None:
            return None
        array, n = flat(x), self.world_size
        out = empty(n * array.size, array.dtype) if wanted else None
        self._arena.all_gather(array, [array.size] * n, out, deadline)
        if out is None:
            return None
        return [tensor(part, x.shape, x.dtype, like=x) for part in out.reshape(n, array.size)]

    def do_all_gather_tensor(
        self, x: Tensor, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        if self._arena is None:
            return super().do_all_gather_tensor(x, counts, deadline)
        row = math.prod(x.shape[1:])
        out = empty(sum(counts) * row, storage(x.dtype))
        self._arena.all_gather(flat(x), [count * row for count in counts], out, deadline)
        return tensor(out, (sum(counts), *x.shape[1:]), x.dtype, like=x)

    def do_reduce_scatter(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> Tensor:
        if self._arena is None:
            return super().do_reduce_scatter(xs, op, deadline)
        mine = xs[self.rank]
        out = empty(mine.size, storage(mine.dtype))
        packed, counts = _packed(xs, mine.dtype), [x.size for x in xs]
        self._arena.reduce_scatter(packed, counts, out, op, mine.dtype, deadline)
        return tensor(out, mine.shape, mine.dtype, like=mine)

    def do_reduce_scatter_tensor(
        self, x: Tensor, op: str, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        if self._arena is None:
            return super().do_reduce_scatter_tensor(x, op, counts, deadline)
        row, shape = math.prod(x.shape[1:]), (counts[self.rank], *x.shape[1:])
        out = empty(math.prod(shape), storage(x.dtype))
        shares = [count * row for count in counts]
        self._arena.reduce_scatter(flat(x), shares, out, op, x.dtype, deadline)
        return tensor(out, shape, x.dtype, like=x)


def _unpacked(message: Message) -> Tensor:
    name, *shape = message.text.split()
    dtype = ft.dtype(name)
    elements = message.elements.view(storage(dtype))
    return tensor(elements, tuple(map(int, shape)), dtype, like=None)


def _packed(xs: Sequence[Tensor], dtype: DType) -> HostArray:
    """The elements of all tensors in one array."""
    packed = empty(sum(x.size for x in xs), storage(dtype))
    start = 0
    for x in xs:
        packed[start : start + x.size] = flat(x)
        start += x.size
    return packed
