"""The communicator: send and recv over the ring, and the all-reduce that rings are known for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import fl_tensor as ft
from acme_ring import wire
from acme_ring.ring import Place, connect
from fl_dist import Communicator, Deadline, launch, reduction
from fl_tensor import Tensor

_STEP = (1 << 16) - 1  # the highest tag: the defaults use low ones, users stay below 2**15


class RingCommunicator(Communicator):
    """Ranks are threads; every byte between them crosses a socket."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "acme-ring"
    # Not "ordered": each part of an all_reduce starts at another rank.
    capabilities = frozenset({"agreement"})

    def __init__(self, place: Place, world_size: int) -> None:
        super().__init__(place.rank, world_size)
        self._place = place

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        launch.check(cls, world_size, timeout)
        places = connect(world_size)

        def body(rank: int) -> Any:
            communicator = cls(places[rank], world_size)
            communicator.timeout = timeout or cls.timeout
            result = fn(communicator, *args)
            communicator.sync()
            places[rank].announce(wire.ENDED)
            return result

        def failed(rank: int, error: BaseException) -> None:
            places[rank].announce(wire.FAILED, f"{type(error).__name__}: {error}".split("\n")[0])

        try:
            return launch.in_threads(world_size, body, failed)
        finally:
            for place in places:
                place.stop()
            for place in places:
                place.close()

    def do_send(self, x: Tensor, dst: int, tag: int, deadline: Deadline) -> None:
        self._place.send(wire.data(self.rank, dst, tag, x))

    def do_recv(self, src: int, tag: int, deadline: Deadline) -> Tensor:
        return wire.tensor(self._place.receive(src, tag, deadline))

    def do_all_reduce(self, x: Tensor, op: str, deadline: Deadline) -> Tensor:
        """Reduce-scatter, then all-gather: 2 (n - 1) steps, each sends 1 / n of the tensor."""
        n, me = self.world_size, self.rank
        if n == 1:
            return super().do_all_reduce(x, op, deadline)
        flat = ft.reshape(x, (-1,))
        bounds = [flat.size * i // n for i in range(n + 1)]
        parts = [flat[bounds[i] : bounds[i + 1]] for i in range(n)]

        def pass_on(mine: int) -> Tensor:
            self.do_send(parts[mine], (me + 1) % n, _STEP, deadline)
            return self.do_recv((me - 1) % n, _STEP, deadline).to(x.backend).to(x.device)

        for step in range(n - 1):
            received = pass_on((me - step) % n)
            i = (me - step - 1) % n
            parts[i] = reduction.combine(op, received, parts[i])
        # Part me + 1 is complete here.
        parts[(me + 1) % n] = reduction.finish(op, parts[(me + 1) % n], n)
        for step in range(n - 1):
            received = pass_on((me + 1 - step) % n)
            parts[(me - step) % n] = received
        return ft.reshape(ft.concatenate(parts), x.shape)
