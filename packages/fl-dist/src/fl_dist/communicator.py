"""The communicator contract: the methods to write, and the derived ones.

A communicator connects the ranks 0 .. world_size - 1 of one program. Every rank holds its own
``Communicator`` object and makes the same collective calls in the same order.

Guarantees for users:

* Values in, values out. No call changes an operand; a result is a new Tensor that nobody else
  holds, with the operand's dtype, backend and device. Only Tensors travel; a tape ends here.
* ``all_reduce`` and ``all_reduce_many`` give every rank the same bits, and the same bits each time.
* Arguments are checked before anything is sent: a call refused with ArgumentError or DTypeError
  leaves the ranks in step.
* Nothing hangs. ``timeout`` (seconds, default ``Communicator.timeout``) ends in DistTimeoutError; a
  rank that is gone gives PeerError with its number and its reason.
* ``async_op=True`` returns a ``Work`` at once (``wait``, ``done``, ``error``, ``result``);
  collectives complete as if they had been called one after another.
* Calls on one communicator come from one thread of the rank at a time.

Reductions: ``sum``, ``mean`` (floating dtypes), ``max``, ``min`` (NaN wins), ``prod``.

Capabilities an author may declare in ``capabilities``:

``"agreement"``  ranks that disagree on a collective (order, operation, shape, dtype, parameters)
                 all get MismatchError, naming what each did, and are in step afterwards. The
                 default costs one message to rank 0 and one back per collective.
``"ordered"``    reductions combine in rank order, ((x0 + x1) + x2) + ..., to the bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from fl_dist import arguments, derived
from fl_dist.call import Call
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, DistTimeoutError, PeerError, one_line
from fl_dist.values import computed
from fl_dist.work import OrderedQueues, Work
from fl_tensor import Tensor

# Any, so that `comm.all_reduce(x).sum()` type-checks: with async_op=True it is a Work of that.
TensorOrWork: TypeAlias = Any
TensorsOrWork: TypeAlias = Any
NothingOrWork: TypeAlias = Any


class Communicator(ABC):
    """Subclass, state ``CONTRACT`` in your class, write the first block."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name: ClassVar[str]
    capabilities: ClassVar[frozenset[str]] = frozenset()
    #: Seconds that an operation waits when the call does not say.
    timeout: float = 600.0

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self._count = 0
        self._work_queues = OrderedQueues()
        self._under_way: list[Work] = []
        self._broken: str | None = None
        self._channels = 1  # numbers given to the groups that `split` made

    # ---- you must write these --------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        """Launch ``fn(communicator, *args)`` on every rank of a new world; results in rank order.

        A program that raises makes the others fail with PeerError; ``run`` then raises
        ProgramError. ``timeout`` becomes the default of the communicators. Each rank starts in a
        copy of the caller's context with a random generator of its own (``fl_dist.launch`` does
        both). A launcher that starts processes may ask for what pickle can carry: ``fn`` a module's
        function, arguments and results plain data. The conformance kit keeps to that.
        """

    @abstractmethod
    def do_send(self, x: Tensor, dst: int, tag: int, deadline: Deadline) -> None:
        """Hand ``x`` to rank ``dst``; never wait for its ``do_recv``. Shape and dtype travel along.

        Messages from one rank to another with one tag arrive in order. ``0 <= tag < 2**16``, or
        below 2**31 if ``do_split`` is left as it is. Here and in ``do_recv`` several threads of a
        rank may call at once.
        """

    @abstractmethod
    def do_recv(self, src: int, tag: int, deadline: Deadline) -> Tensor:
        """The next message of rank ``src`` with ``tag``; on the default backend and device.

        Raises ``deadline.error(...)`` when time is up, and PeerError as soon as ``src`` is known to
        be gone (or any rank whose end dooms the world).
        """

    # ---- you get these for free ------------------------------------------------------------------
    # What users call: arguments are checked and numbered here, then `start` takes over.

    def all_reduce(
        self, x: Tensor, op: str = "sum", *, async_op: bool = False, timeout: float | None = None
    ) -> TensorOrWork:
        """The reduction of every rank's ``x`` (one shape and dtype), on every rank."""
        x = arguments.tensor("all_reduce", x)
        op = arguments.reducible("all_reduce", op, [x])
        return self._collective("all_reduce", (x,), async_op, timeout, op=op)

    def all_reduce_many(
        self,
        xs: Sequence[Tensor],
        op: str = "sum",
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorsOrWork:
        """``all_reduce`` of each tensor of a list, in as few messages as the communicator can."""
        operands = arguments.tensors("all_reduce_many", xs)
        op = arguments.reducible("all_reduce_many", op, operands)
        return self._collective("all_reduce_many", operands, async_op, timeout, op=op)

    def broadcast(
        self, x: Tensor, root: int = 0, *, async_op: bool = False, timeout: float | None = None
    ) -> TensorOrWork:
        """Rank ``root``'s ``x``, on every rank; the others pass one of that shape and dtype."""
        x = arguments.tensor("broadcast", x)
        root = arguments.rank("broadcast", "root", root, self.world_size)
        return self._collective("broadcast", (x,), async_op, timeout, root=root)

    def reduce(
        self,
        x: Tensor,
        op: str = "sum",
        root: int = 0,
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorOrWork:
        """The reduction of every rank's ``x`` on rank ``root``; None on the others."""
        x = arguments.tensor("reduce", x)
        op = arguments.reducible("reduce", op, [x])
        root = arguments.rank("reduce", "root", root, self.world_size)
        return self._collective("reduce", (x,), async_op, timeout, op=op, root=root)

    def all_gather(
        self, x: Tensor, *, async_op: bool = False, timeout: float | None = None
    ) -> TensorsOrWork:
        """The list of every rank's ``x`` (one shape and dtype), in rank order, on every rank."""
        x = arguments.tensor("all_gather", x)
        return self._collective("all_gather", (x,), async_op, timeout)

    def reduce_scatter(
        self,
        xs: Sequence[Tensor],
        op: str = "sum",
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorOrWork:
        """On rank r the reduction of every rank's ``xs[r]``; one tensor per rank is passed."""
        operands = arguments.tensors("reduce_scatter", xs, self.world_size)
        op = arguments.reducible("reduce_scatter", op, operands)
        return self._collective("reduce_scatter", operands, async_op, timeout, op=op)

    def all_to_all(
        self, xs: Sequence[Tensor], *, async_op: bool = False, timeout: float | None = None
    ) -> TensorsOrWork:
        """On rank r the list of every rank's ``xs[r]``. Shapes are free, the dtype is one."""
        operands = arguments.tensors("all_to_all", xs, self.world_size)
        return self._collective("all_to_all", operands, async_op, timeout)

    def barrier(self, *, async_op: bool = False, timeout: float | None = None) -> NothingOrWork:
        """Return when every rank has called it."""
        return self._collective("barrier", (), async_op, timeout)

    def split(
        self, color: int | None, key: int = 0, *, timeout: float | None = None
    ) -> Communicator | None:
        """A communicator for the ranks of one ``color`` (>= 0), in order of ``key``, then of rank.

        None for a rank that passes ``color=None``. Both communicators stay usable, independently.
        """
        if color is not None and arguments.integer("split", "color", color) < 0:
            raise arguments.ArgumentError(f"[split] color {color}: colors are >= 0, or None")
        key = arguments.integer("split", "key", key)
        part: Communicator | None = self._collective(
            "split", (), False, timeout, color=color, key=key
        )
        if part is not None:
            part.timeout = self.timeout
        return part

    def send(
        self,
        x: Tensor,
        dst: int,
        *,
        tag: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> NothingOrWork:
        """Hand ``x`` to rank ``dst`` (not this one) without waiting for its ``recv``."""
        x = arguments.tensor("send", x)
        dst = arguments.peer("send", "dst", dst, self.rank, self.world_size)
        call = Call("send", (x,), {"dst": dst, "tag": arguments.tag("send", tag)})
        return self._issue(call, async_op, timeout)

    def recv(
        self, src: int, *, tag: int = 0, async_op: bool = False, timeout: float | None = None
    ) -> TensorOrWork:
        """The next tensor that rank ``src`` sent with ``tag`` (0 .. 32767)."""
        src = arguments.peer("recv", "src", src, self.rank, self.world_size)
        call = Call("recv", (), {"src": src, "tag": arguments.tag("recv", tag)})
        return self._issue(call, async_op, timeout)

    def sync(self, timeout: float | None = None) -> None:
        """Wait for every asynchronous operation of this rank; raises the first error among them.

        An error that nobody waited for shows here at the latest.
        """
        works, self._under_way = self._under_way, []
        errors: list[Exception] = []
        for work in works:
            try:
                if not work.settled:
                    work.wait(timeout)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    # How they are done, from do_send and do_recv alone; override what the transport does better.

    @classmethod
    def offers(cls, world_size: int) -> bool:
        """Whether ``run`` can launch a world of this size here and now."""
        return world_size >= 1

    def do_all_reduce(self, x: Tensor, op: str, deadline: Deadline) -> Tensor:
        return derived.all_reduce(self, x, op, deadline)

    def do_all_reduce_many(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> list[Tensor]:
        return derived.all_reduce_many(self, xs, op, deadline)

    def do_broadcast(self, x: Tensor, root: int, deadline: Deadline) -> Tensor:
        return derived.broadcast(self, x, root, deadline)

    def do_reduce(self, x: Tensor, op: str, root: int, deadline: Deadline) -> Tensor | None:
        return derived.reduce(self, x, op, root, deadline)

    def do_all_gather(self, x: Tensor, deadline: Deadline) -> list[Tensor]:
        return derived.all_gather(self, x, deadline)

    def do_reduce_scatter(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> Tensor:
        return derived.reduce_scatter(self, xs, op, deadline)

    def do_all_to_all(self, xs: Sequence[Tensor], deadline: Deadline) -> list[Tensor]:
        return derived.all_to_all(self, xs, deadline)

    def do_barrier(self, deadline: Deadline) -> None:
        derived.barrier(self, deadline)

    def do_split(self, color: int | None, key: int, deadline: Deadline) -> Communicator | None:
        return derived.split(self, color, key, deadline)

    def do_agree(self, call: Call, deadline: Deadline) -> None:
        """Raise MismatchError on every rank unless all describe ``call`` alike."""
        derived.agree(self, call.describe(), deadline)

    def start(self, call: Call, deadline: Deadline, inline: bool) -> Work:
        """Begin ``call``. ``inline``: the caller will wait at once, so it may run right here.

        The default performs the blocking ``do_...`` on a helper thread. A transport that is
        asynchronous by nature overrides this and returns its own kind of Work.
        """
        inline = inline or call.operation == "send"  # which never waits
        return self._work_queues.submit(
            call.queue_key, call.title, lambda: self.perform(call, deadline), inline
        )

    def perform(self, call: Call, deadline: Deadline) -> Any:
        """Do ``call`` here and now: agree on it where that is declared, then ``do_<operation>``."""
        if self._broken is not None:
            raise DistError(
                f"{deadline.where}: this communicator is out of step since {self._broken}"
            )
        operands: tuple[Any, ...] = call.values
        if call.operation in ("all_reduce_many", "reduce_scatter", "all_to_all"):
            operands = (call.values,)
        try:
            if call.number and "agreement" in self.capabilities:
                self.do_agree(call, deadline)
            do = getattr(self, f"do_{call.operation}")
            result = do(*operands, *call.parameters.values(), deadline)
            return computed(result) if self.world_size > 1 else result
        except (DistTimeoutError, PeerError) as error:
            if call.number:  # half of a collective is done: the ranks no longer march in step
                self._broken = one_line(error)
            raise

    # ---- not part of the contract ----------------------------------------------------------------

    def _collective(
        self,
        operation: str,
        values: tuple[Tensor, ...],
        async_op: bool,
        timeout: float | None,
        **parameters: Any,
    ) -> Any:
        call = Call(operation, values, parameters, self._count + 1)
        return self._issue(call, async_op, timeout)

    def _issue(self, call: Call, async_op: bool, timeout: float | None) -> Any:
        where = f"[{call.title}] rank {self.rank} of {self.world_size}"
        deadline = Deadline(timeout, where, default=self.timeout)
        self._count = call.number or self._count
        if self.world_size > 1:
            computed(call.values)
        work = self.start(call, deadline, inline=not async_op)
        if not async_op:
            return work.wait()
        self._under_way = [w for w in self._under_way if not w.settled]
        self._under_way.append(work)
        return work

    def __repr__(self) -> str:
        return f"<{type(self).__name__} rank {self.rank} of {self.world_size}>"
