"""``threads``: the reference communicator, N ranks in N threads of one process.

Every collective is a meeting. The last rank to come computes the result for all, in rank order, so
results are deterministic and the same everywhere; and what the ranks disagree about is seen there.
Where all ranks wait for one another (a ``recv`` whose ``send`` never comes), all of them get the
error at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fl_dist import launch, meaning
from fl_dist.call import Call
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.work import Work
from fl_dist.world import Posted, World
from fl_tensor import Tensor


class ThreadsCommunicator(Communicator):
    """One rank of ``run``, or of a part of it: ``ranks`` are those of the world, in their order."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "threads"
    capabilities = frozenset({"agreement", "ordered"})

    def __init__(self, world: World, ranks: Sequence[int], rank: int, channel: int = 0) -> None:
        super().__init__(rank, len(ranks))
        self._world = world
        self._ranks = list(ranks)
        self._me = self._ranks[rank]
        self._channel = channel

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        launch.check(cls, world_size, timeout)
        world = World(world_size)

        def body(rank: int) -> Any:
            world.enter(rank)
            communicator = cls(world, range(world_size), rank)
            communicator.timeout = timeout or cls.timeout
            result = fn(communicator, *args)
            communicator.sync()
            world.end(rank)
            return result

        return launch.in_threads(world_size, body, world.fail)

    def do_send(self, x: Tensor, dst: int, tag: int, deadline: Deadline) -> None:
        self._world.put((self._channel, self._me, self._ranks[dst], tag), x)

    def do_recv(self, src: int, tag: int, deadline: Deadline) -> Tensor:
        received: Tensor = self._take(src, tag, deadline).wait()
        return received

    def start(self, call: Call, deadline: Deadline, inline: bool) -> Work:
        if call.operation == "send":
            self.do_send(call.values[0], call.parameters["dst"], call.parameters["tag"], deadline)
            return Work(call.title).succeed(None)
        if call.operation == "recv":
            return self._take(call.parameters["src"], call.parameters["tag"], deadline)
        results = self._parts if call.operation == "split" else meaning.results
        key = (self._channel, call.number)
        return self._world.meet(key, self._ranks, self._me, call, deadline, results)

    def _take(self, src: int, tag: int, deadline: Deadline) -> Posted:
        sender = self._ranks[src]
        address = (self._channel, sender, self._me, tag)
        what = f"recv from rank {sender} with tag {tag}"
        return self._world.take(address, self._me, sender, what, deadline)

    def _parts(self, calls: list[Call]) -> list[Any]:
        parts = meaning.members(calls)
        channels = {tuple(part): self._world.new_channel() for part in parts if part is not None}
        made: list[ThreadsCommunicator | None] = []
        for rank, part in enumerate(parts):
            if part is None:
                made.append(None)
                continue
            ranks, channel = [self._ranks[r] for r in part], channels[tuple(part)]
            made.append(type(self)(self._world, ranks, part.index(rank), channel))
        return made


def run(
    world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
) -> list[Any]:
    """``fn(communicator, *args)`` on ``world_size`` ranks; the list of results in rank order.

    Each rank has a thread, a copy of the caller's context and a random generator of its own, split
    from the caller's. Raises ProgramError when a rank raises: it names that rank and its cause.
    """
    return ThreadsCommunicator.run(world_size, fn, *args, timeout=timeout)
