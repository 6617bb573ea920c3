"""``local``: the communicator of a single process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from fl_dist import launch
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError
from fl_tensor import Tensor


class LocalCommunicator(Communicator):
    """World size 1. Code written for many ranks runs with it unchanged."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "local"
    capabilities = frozenset({"agreement", "ordered"})

    def __init__(self) -> None:
        super().__init__(0, 1)

    @classmethod
    def offers(cls, world_size: int) -> bool:
        return world_size == 1

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        launch.check(cls, world_size, timeout)

        def body(rank: int) -> Any:
            communicator = cls()
            communicator.timeout = timeout or cls.timeout
            result = fn(communicator, *args)
            communicator.sync()
            return result

        return launch.in_threads(world_size, body)

    def do_send(self, x: Tensor, dst: int, tag: int, deadline: Deadline) -> NoReturn:
        raise DistError(f"{deadline.where}: there is no other rank")

    def do_recv(self, src: int, tag: int, deadline: Deadline) -> NoReturn:
        raise DistError(f"{deadline.where}: there is no other rank")


def local() -> LocalCommunicator:
    """The communicator of a program that runs alone."""
    return LocalCommunicator()
