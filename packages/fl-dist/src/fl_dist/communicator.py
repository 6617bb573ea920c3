"""The communicator contract: what users call.

A communicator connects the ranks 0 .. world_size - 1 of one program. Every rank holds its own
``Communicator`` object and makes the same collective calls in the same order. Authors of
communicators read ``fl_dist.transport``.

Guarantees for users:

* Values in, values out. No call changes an operand; a result is a new Tensor that nobody else
  holds, with the operand's dtype, backend and device. Only Tensors travel; a tape ends here.
* ``all_reduce`` and ``all_reduce_many`` give every rank the same bits, and the same bits each time.
* Arguments are checked before anything is sent: a call refused with ArgumentError or DTypeError
  leaves the ranks in step.
* Nothing hangs. ``timeout`` (seconds, default ``Communicator.timeout``) ends in DistTimeoutError; a
  rank that is gone gives PeerError with its number and its reason.
* ``async_op=True`` returns a ``Work`` at once (``wait``, ``then``, ``done``, ``error``, ...);
  collectives complete as if they had been called one after another.
* Calls on one communicator come from one thread of the rank at a time.

Reductions: ``sum``, ``mean`` (floating dtypes), ``max``, ``min`` (NaN wins), ``prod``. float16 and
bfloat16 are summed and multiplied in float32 and rounded once.

Capabilities an author may declare in ``capabilities``:

``"agreement"``  ranks that disagree on a collective (order, operation, shape, dtype, parameters)
                 all get MismatchError, naming what each did, and are in step afterwards. A word of
                 63 bits is compared before each collective, texts travel only after a difference.
                 ``FL_DIST_CONSISTENCY_CHECK=0`` in the environment turns it off.
``"ordered"``    reductions combine in rank order, ((x0 + x1) + x2) + ..., to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import fl_tensor as ft
from fl_dist import arguments, messages
from fl_dist.call import Call
from fl_dist.errors import ArgumentError
from fl_dist.executor import Executor
from fl_dist.queues import Job
from fl_tensor import DType, Tensor

# Any, so that `comm.all_reduce(x).sum()` type-checks: with async_op=True it is a Work of that.
TensorOrWork: TypeAlias = Any
TensorsOrWork: TypeAlias = Any
NothingOrWork: TypeAlias = Any


class Communicator(Executor):
    """Subclass, state ``CONTRACT`` in your class, write ``join``, ``do_send`` and ``do_recv``."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name: ClassVar[str]

    # ---- beginning and end -----------------------------------------------------------------------

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        """Launch ``fn(communicator, *args)`` on every rank of a new world; results in rank order.

        Ranks are what ``ranks_are`` says. A program that raises makes the others fail with
        PeerError; ``run`` then raises ProgramError. ``timeout`` becomes the default of the
        communicators. Each rank starts in a copy of the caller's context (the backend in use ...)
        with a random generator of its own, split from the caller's. What processes are given must
        pickle: ``fn`` a module's function, arguments and results plain data.
        """
        from fl_dist import launch

        return launch.run(cls, world_size, fn, *args, timeout=timeout)

    @classmethod
    def offers(cls, world_size: int) -> bool:
        """Whether ``run`` can launch a world of this size here and now."""
        return world_size >= 1

    # ---- collectives -----------------------------------------------------------------------------

    def all_reduce(
        self,
        x: Tensor,
        op: str = "sum",
        *,
        donate: bool = False,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorOrWork:
        """The reduction of every rank's ``x`` (one shape and dtype), on every rank.

        ``donate=True`` gives ``x`` up: the result may take its memory, and a later use of this
        handle raises DistError.
        """
        x = arguments.tensor("all_reduce", x)
        op = arguments.reducible("all_reduce", op, x)
        options = {"into": x} if donate else None
        return self._collective("all_reduce", (x,), async_op, timeout, {"op": op}, options)

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
        op = arguments.reducible("all_reduce_many", op, *operands)
        return self._collective("all_reduce_many", operands, async_op, timeout, {"op": op})

    def broadcast(
        self, x: Tensor, root: int = 0, *, async_op: bool = False, timeout: float | None = None
    ) -> TensorOrWork:
        """Rank ``root``'s ``x``, on every rank; the others pass one of that shape and dtype."""
        x = arguments.tensor("broadcast", x)
        root = arguments.rank("broadcast", "root", root, self.world_size)
        return self._collective("broadcast", (x,), async_op, timeout, {"root": root})

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
        op = arguments.reducible("reduce", op, x)
        root = arguments.rank("reduce", "root", root, self.world_size)
        return self._collective("reduce", (x,), async_op, timeout, {"op": op, "root": root})

    def all_gather(
        self, x: Tensor, *, async_op: bool = False, timeout: float | None = None
    ) -> TensorsOrWork:
        """The list of every rank's ``x`` (one shape and dtype), in rank order, on every rank."""
        x = arguments.tensor("all_gather", x)
        return self._collective("all_gather", (x,), async_op, timeout)

    def all_gather_tensor(
        self,
        x: Tensor,
        *,
        counts: Sequence[int] | None = None,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorOrWork:
        """Every rank's ``x`` joined along axis 0, in rank order, on every rank.

        Axis 0 may differ by rank, the other axes and the dtype may not. ``counts``, the length of
        axis 0 on every rank, saves their exchange where it is known.
        """
        x = arguments.rows("all_gather_tensor", x)
        given = None
        if counts is not None:
            given = arguments.counts("all_gather_tensor", counts, self.world_size)
            if given[self.rank] != x.shape[0]:
                raise ArgumentError(
                    f"[all_gather_tensor] counts[{self.rank}] is {given[self.rank]}, but the "
                    f"tensor of this rank has {x.shape[0]} rows"
                )
        return self._collective("all_gather_tensor", (x,), async_op, timeout, {"counts": given})

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
        op = arguments.reducible("reduce_scatter", op, *operands)
        return self._collective("reduce_scatter", operands, async_op, timeout, {"op": op})

    def reduce_scatter_tensor(
        self,
        x: Tensor,
        op: str = "sum",
        *,
        counts: Sequence[int] | None = None,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorOrWork:
        """This rank's rows of the reduction of every rank's ``x`` (one shape and dtype).

        Axis 0 is divided in rank order into ``counts`` rows. The default is
        ``fl_dist.even_counts(len(x), world_size)``: shares that differ by at most 1.
        """
        x = arguments.rows("reduce_scatter_tensor", x)
        op = arguments.reducible("reduce_scatter_tensor", op, x)
        if counts is None:
            shares = arguments.even_counts(x.shape[0], self.world_size)
        else:
            shares = arguments.counts("reduce_scatter_tensor", counts, self.world_size, x.shape[0])
        parameters = {"op": op, "counts": shares}
        return self._collective("reduce_scatter_tensor", (x,), async_op, timeout, parameters)

    def gather(
        self, x: Tensor, root: int = 0, *, async_op: bool = False, timeout: float | None = None
    ) -> TensorsOrWork:
        """The list of every rank's ``x`` (one shape and dtype) on rank ``root``; None elsewhere."""
        x = arguments.tensor("gather", x)
        root = arguments.rank("gather", "root", root, self.world_size)
        return self._collective("gather", (x,), async_op, timeout, {"root": root})

    def scatter(
        self,
        xs: Sequence[Tensor] | None,
        root: int = 0,
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorOrWork:
        """On rank r the tensor ``xs[r]`` of rank ``root``; the others pass None. Shapes are free.

        The result is on the root's own backend there, on the default one elsewhere.
        """
        root = arguments.rank("scatter", "root", root, self.world_size)
        operands: tuple[Tensor, ...] = ()
        if self.rank == root:
            operands = arguments.tensors("scatter", xs, self.world_size)
        elif xs is not None:
            raise ArgumentError(f"[scatter] rank {self.rank} is not the root {root}: pass None")
        return self._collective("scatter", operands, async_op, timeout, {"root": root})

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
            raise ArgumentError(f"[split] color {color}: colors are >= 0, or None")
        key = arguments.integer("split", "key", key)
        part: Communicator | None = self._collective(
            "split", (), False, timeout, {"color": color, "key": key}
        )
        if part is not None:
            part.timeout = self.timeout
            part.check_consistency = self.check_consistency
            if self.thread_rule == "one":  # one thread for the whole transport
                part._queues, part._owns_queues = self._queues, False
        return part

    # ---- messages --------------------------------------------------------------------------------

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
        self,
        src: int | None,
        *,
        tag: int = 0,
        like: Tensor | None = None,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> TensorOrWork:
        """The next tensor that rank ``src`` sent with ``tag`` (0 .. 32767).

        With ``src=None`` the next one of any rank: the result is ``(src, x)``. ``like`` promises
        the shape and dtype; the result is on its backend and device. MismatchError when the
        message is another one. Receives of one address are served in the order of their posting;
        receives of one tag with and without ``src`` do not mix.
        """
        if src is not None:
            src = arguments.peer("recv", "src", src, self.rank, self.world_size)
        elif self.world_size == 1:
            raise ArgumentError("[recv] src None: there is no other rank in a world of 1")
        call = Call("recv", (), {"src": src, "tag": arguments.tag("recv", tag)})
        if like is not None:
            call.options["like"] = arguments.tensor("recv", like)
        return self._issue(call, async_op, timeout)

    def probe(self, src: int, *, tag: int = 0) -> bool:
        """Whether a ``recv`` of that address would return at once; never waits for a message.

        False while receives of that address are under way: the next message is theirs.
        """
        src = arguments.peer("probe", "src", src, self.rank, self.world_size)
        call = Call("recv", (), {"src": src, "tag": arguments.tag("probe", tag)})
        if self._queues.is_busy((id(self), call.queue_key)):
            return False
        look = Job("probe", "probe", lambda: messages.has_come(self, src, call.parameters["tag"]))
        return bool(self._queues.call(look))

    # ---- memory and placement --------------------------------------------------------------------

    def buffer(self, shape: Sequence[int], dtype: DType | str = "float32") -> Tensor:
        """A tensor of zeros in memory that the transport uses as it is, where it has such memory.

        Fill it by ``x[...] = value`` and donate it. The default is ``ft.zeros``.
        """
        return ft.zeros(tuple(shape), dtype)

    def explain(self, operation: str, x: Tensor) -> str:
        """``"native"`` where the transport takes ``x`` as it is, else ``"staged: ..."``: what is
        done to it first, such as ``"staged: float16 reduced as float32 on the host"``."""
        arguments.tensor("explain", x)
        reduces = "reduce" in operation
        if reduces and str(x.dtype) not in self.native_dtypes:
            wide = " as float32" if str(x.dtype) in ("float16", "bfloat16") else ""
            return f"staged: {x.dtype} reduced{wide} on the host"
        if x.device.kind not in self.native_devices:
            return f"staged: copied from {x.device} to the host and back"
        return "native"


def check_communicator(where: str, communicator: object) -> None:
    """Raise ArgumentError for what is no Communicator."""
    if not isinstance(communicator, Communicator):
        raise ArgumentError(f"[{where}] {communicator!r} is no Communicator")
