"""``threads``: the reference communicator, N ranks in N threads of one process.

Every collective is a meeting. The last rank to come computes the result for all, in rank order, so
results are deterministic and the same everywhere; and what the ranks disagree about is seen there.
Where all ranks wait for one another (a ``recv`` whose ``send`` never comes), all of them get the
error at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from fl_dist import messages, semantics
from fl_dist.call import Call
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.launch.threads import shared
from fl_dist.rank_info import RankInfo
from fl_dist.threads_world import PendingWork, World
from fl_dist.work import Work, settled
from fl_tensor import Tensor

__all__ = ["ThreadsCommunicator", "run"]


class ThreadsCommunicator(Communicator):
    """One rank of ``run``, or of a part of it: ``ranks`` are those of the world, in their order."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "threads"
    capabilities = frozenset({"agreement", "ordered"})
    ranks_are = "threads"

    def __init__(self, world: World, ranks: Sequence[int], rank: int, channel: int = 0) -> None:
        super().__init__(rank, len(ranks))
        self._world = world
        self._ranks = list(ranks)
        self._me = self._ranks[rank]
        self.channel = channel

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> ThreadsCommunicator:
        """The ranks of a world are threads of one process that pass the same ``info.store``. Each
        calls ``join`` on its own thread. Returns at once: the first collective is the meeting."""
        world = shared(info, lambda: World(info.world_size))
        world.enter(info.rank)
        return cls(world, range(info.world_size), info.rank)

    def do_close(self, deadline: Deadline) -> None:
        if self.channel == 0:
            self._world.end(self._me)

    def abort(self, cause: str) -> None:
        super().abort(cause)
        self._world.fail(self._me, cause)

    def explain(self, operation: str, x: Tensor) -> str:
        return "native"

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        self._world.put((channel, self._me, self._ranks[dst], tag), x)

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        received: Tensor = self._take([src], tag, channel, deadline, lambda src, x: x).wait()
        return received

    def do_recv_any(self, tag: int, channel: int, deadline: Deadline) -> tuple[int, Tensor]:
        others = [r for r in range(self.world_size) if r != self.rank]
        received: tuple[int, Tensor] = self._take(
            others, tag, channel, deadline, lambda src, x: (src, x)
        ).wait()
        return received

    def do_probe(self, src: int, tag: int, channel: int) -> bool:
        sender = self._ranks[src]
        return self._world.has_mail((channel, sender, self._me, tag), sender)

    # ---- operations that other ranks complete ----------------------------------------------------

    def start(self, call: Call, deadline: Deadline) -> Work:
        self.check_usable(deadline)
        if call.operation == "send":
            return settled(call.title, lambda: self._do(call, deadline))
        if call.operation == "recv":
            return self._start_recv(call, deadline)
        results = self._parts if call.operation == "split" else semantics.results
        key = (self.channel, call.number)
        return self._world.meet(key, self._ranks, self._me, call, deadline, results)

    def _start_recv(self, call: Call, deadline: Deadline) -> PendingWork:
        src, tag, like = *call.parameters.values(), call.options.get("like")
        others = [r for r in range(self.world_size) if r != self.rank]

        def deliver(sender: int, x: Tensor) -> Any:
            x = messages.placed(x, sender, like, deadline)
            return x if src is not None else (sender, x)

        return self._take(others if src is None else [src], tag, self.channel, deadline, deliver)

    def _take(
        self,
        sources: Sequence[int],
        tag: int,
        channel: int,
        deadline: Deadline,
        deliver: Callable[[int, Tensor], Any],
    ) -> PendingWork:
        """The next message of one of ``sources``, as ``deliver(src, x)`` makes it a result."""
        senders = {self._ranks[src]: src for src in sources}
        addresses: dict[Hashable, int] = {
            (channel, sender, self._me, tag): sender for sender in senders
        }
        names = ", ".join(map(str, senders))
        what = f"recv from rank{'s' * (len(senders) > 1)} {names} with tag {tag}"
        return self._world.take(
            addresses, self._me, what, deadline, lambda sender, x: deliver(senders[sender], x)
        )

    def _parts(self, calls: list[Call]) -> list[Any]:
        parts = semantics.members(calls)
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
