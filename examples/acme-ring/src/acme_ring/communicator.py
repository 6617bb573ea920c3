"""The communicator: send and recv over the ring, and the all-reduce that rings are known for."""

from __future__ import annotations

from typing import ClassVar

import fl_tensor as ft
from acme_ring import wire
from acme_ring.ring import Place, connect
from fl_dist import Communicator, Deadline, RankInfo, launch, reduction
from fl_tensor import Tensor

_STEP = (1 << 16) - 1  # the highest tag: the defaults use low ones, users stay below 2**15


class RingCommunicator(Communicator):
    """Ranks are threads; every byte between them crosses a socket."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "acme-ring"
    ranks_are = "threads"
    # Not "ordered": each part of an all_reduce starts at another rank.
    capabilities = frozenset({"agreement"})

    def __init__(self, place: Place, world_size: int) -> None:
        super().__init__(place.rank, world_size)
        self._place = place

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> RingCommunicator:
        places = launch.shared(info, lambda: connect(info.world_size))
        return cls(places[info.rank], info.world_size)

    def do_close(self, deadline: Deadline) -> None:
        self._place.leave(deadline)

    def abort(self, cause: str) -> None:
        super().abort(cause)
        self._place.announce(wire.FAILED, cause)

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        self._place.send(wire.data(self.rank, dst, (tag, channel), x))

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        return wire.tensor(self._place.receive(src, (tag, channel), deadline))

    def do_all_reduce(
        self, x: Tensor, op: str, deadline: Deadline, into: Tensor | None = None
    ) -> Tensor:
        """Reduce-scatter, then all-gather: 2 (n - 1) steps, each sends 1 / n of the tensor."""
        n, me = self.world_size, self.rank
        if n == 1:
            return super().do_all_reduce(x, op, deadline)
        flat = reduction.widen(op, ft.reshape(x, (-1,)))
        bounds = [flat.size * i // n for i in range(n + 1)]
        parts = [flat[bounds[i] : bounds[i + 1]] for i in range(n)]

        def pass_on(mine: int) -> Tensor:
            self.do_send(parts[mine], (me + 1) % n, _STEP, self.channel, deadline)
            received = self.do_recv((me - 1) % n, _STEP, self.channel, deadline)
            return received.to(x.backend).to(x.device)

        for step in range(n - 1):
            received = pass_on((me - step) % n)
            i = (me - step - 1) % n
            parts[i] = reduction.combine(op, received, parts[i])
        # Part me + 1 is complete here.
        parts[(me + 1) % n] = reduction.finish(op, parts[(me + 1) % n], n, x.dtype)
        for step in range(n - 1):
            received = pass_on((me + 1 - step) % n)
            parts[(me - step) % n] = received
        return ft.reshape(ft.concatenate(parts), x.shape)
