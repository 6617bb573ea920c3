"""Sub-groups of ranks on the transport of the whole world: the default of ``split``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError
from fl_tensor import Tensor


class Group(Communicator):
    """Ranks ``ranks`` of ``base``, renumbered from 0, on a channel (a range of tags) of their own.

    A group of a group stands on the same base, so channels never nest.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self, base: Communicator, ranks: Sequence[int], channel: int) -> None:
        super().__init__(ranks.index(base.rank), len(ranks))
        self.name = base.name  # type: ignore[misc]
        self.capabilities = base.capabilities  # type: ignore[misc]
        self.base = base
        self.ranks = list(ranks)
        self._offset = channel << 16

    @staticmethod
    def ground(comm: Communicator) -> tuple[Communicator, list[int]]:
        """The communicator that ``comm`` stands on, and the numbers of its ranks there."""
        if isinstance(comm, Group):
            return comm.base, comm.ranks
        return comm, list(range(comm.world_size))

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        raise DistError("a group is split from a running world; launch with that world's run")

    def do_send(self, x: Tensor, dst: int, tag: int, deadline: Deadline) -> None:
        self.base.do_send(x, self.ranks[dst], tag + self._offset, deadline)

    def do_recv(self, src: int, tag: int, deadline: Deadline) -> Tensor:
        return self.base.do_recv(self.ranks[src], tag + self._offset, deadline)
