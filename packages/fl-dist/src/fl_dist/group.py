"""Sub-groups of ranks on the transport of the whole world: the default of ``split``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError
from fl_dist.rank_info import RankInfo
from fl_dist.transport import Transport
from fl_tensor import DType, Tensor


class Group(Communicator):
    """Ranks ``ranks`` of ``base``, renumbered from 0, on a channel of their own.

    A group of a group stands on the same base, so channels never nest.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self, base: Communicator, ranks: Sequence[int], channel: int) -> None:
        self.name = base.name  # type: ignore[misc]
        self.capabilities = base.capabilities  # type: ignore[misc]
        self.thread_rule = base.thread_rule  # type: ignore[misc]
        super().__init__(ranks.index(base.rank), len(ranks))
        self.base = base
        self.ranks = list(ranks)
        self.channel = channel

    @staticmethod
    def ground(comm: Transport) -> tuple[Communicator, list[int]]:
        """The communicator that ``comm`` stands on, and the numbers of its ranks there."""
        if isinstance(comm, Group):
            return comm.base, comm.ranks
        assert isinstance(comm, Communicator)
        return comm, list(range(comm.world_size))

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> Group:
        raise DistError("a group is split from a running world: join that world")

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        self.base.do_send(x, self.ranks[dst], tag, channel, deadline)

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        return self.base.do_recv(self.ranks[src], tag, channel, deadline, like)

    def do_probe(self, src: int, tag: int, channel: int) -> bool:
        return self.base.do_probe(self.ranks[src], tag, channel)

    def buffer(self, shape: Sequence[int], dtype: DType | str = "float32") -> Tensor:
        return self.base.buffer(shape, dtype)

    def abort(self, cause: str) -> None:
        """A failure of a rank concerns the whole world."""
        super().abort(cause)
        self.base.abort(cause)

    def _take_kept(self, src: int, tag: int, channel: int) -> Tensor | None:
        return self.base._take_kept(self.ranks[src], tag, channel)
