"""``local``: the communicator of a single process."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import ArgumentError, DistError
from fl_dist.rank_info import RankInfo
from fl_tensor import Tensor


class LocalCommunicator(Communicator):
    """World size 1. Code written for many ranks runs with it unchanged."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "local"
    capabilities = frozenset({"agreement", "ordered"})
    ranks_are = "threads"

    def __init__(self) -> None:
        super().__init__(0, 1)

    @classmethod
    def offers(cls, world_size: int) -> bool:
        return world_size == 1

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> LocalCommunicator:
        if info.world_size != 1:
            raise ArgumentError(f"[join] 'local' offers no world of size {info.world_size}")
        return cls()

    def explain(self, operation: str, x: Tensor) -> str:
        return "native"

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> NoReturn:
        raise DistError(f"{deadline.where}: there is no other rank")

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> NoReturn:
        raise DistError(f"{deadline.where}: there is no other rank")


def local() -> LocalCommunicator:
    """The communicator of a program that runs alone."""
    return LocalCommunicator()
