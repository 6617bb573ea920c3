"""The side of a communicator that authors write: three methods, and hooks to override.

Every hook has a default that needs ``do_send`` and ``do_recv`` alone (``fl_dist.derived``). A
transport overrides what it does better. Arguments have been checked and ranks have been found to
agree before a hook is called, and a hook never changes an operand that it is not given as ``into``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from fl_dist import derived, messages
from fl_dist.deadline import Deadline
from fl_dist.rank_info import RankInfo
from fl_tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

    from fl_dist.communicator import Communicator


class Transport(ABC):
    """The base of ``Communicator``: derive from that one.

    Hooks are called on the thread of the rank that called, or on helper threads of it. With
    ``thread_rule = "one"`` every hook but ``abort`` is called on one progress thread of the rank.
    """

    #: What ``run`` starts: ``"processes"`` or ``"threads"`` of the calling process.
    ranks_are: ClassVar[str] = "processes"
    #: Whether only a launcher of its own, such as mpiexec, can start its ranks.
    own_launcher: ClassVar[bool] = False
    #: ``"many"``: several threads of a rank may call the hooks at once. ``"one"``: one thread only;
    #: then a hook that waits calls ``self.progress()`` in its loop.
    thread_rule: ClassVar[str] = "many"
    #: Names of dtypes that the transport reduces itself; others take the derived algorithms.
    native_dtypes: ClassVar[frozenset[str]] = frozenset()
    #: Kinds of devices whose memory the transport reads and writes itself.
    native_devices: ClassVar[frozenset[str]] = frozenset({"cpu"})

    rank: int
    world_size: int
    #: The channel of the messages of this communicator: 0 in a world, other numbers in its groups.
    channel: int = 0

    _channels: int  # how many channels of this transport are taken
    _kept: messages.KeptMessages  # what probes took in
    _served_last: int = -1  # by a receive of any rank

    # ---- you must write these --------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> Self:
        """This rank's communicator of the world that ``info`` describes.

        Every rank calls it once. It returns when the ranks can reach one another, and raises
        DistTimeoutError after ``timeout`` seconds (default: ``Communicator.timeout``) that names
        the ranks that did not come. ``fl_dist.launch`` and ``dist.init`` call it.
        """

    @abstractmethod
    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        """Hand ``x`` to rank ``dst``; never wait for its ``do_recv``. Shape and dtype travel along.

        Messages from one rank to another with one tag and channel arrive in order. ``0 <= tag <
        2**16`` (users stay below 2**15) and ``0 <= channel < 2**15``. Raises PeerError when
        ``dst`` is known to be gone.
        """

    @abstractmethod
    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        """The next message of rank ``src`` with ``tag`` on ``channel``, on the default backend and
        device. ``like`` is a tensor of the shape and dtype of the message, where they are known.

        What has come is looked at before the clock: with a deadline in the past this is a poll.
        Raises ``deadline.error(...)`` when time is up, and then takes no message. Raises PeerError
        as soon as ``src`` is known to be gone (or any rank whose end dooms the world); messages
        that it sent before are received first.
        """

    # ---- the end ---------------------------------------------------------------------------------

    def do_close(self, deadline: Deadline) -> None:  # noqa: B027
        """Hand over what was sent, tell the others that this rank has ended, release everything.

        Called once, by ``close``, when nothing of this rank is under way. The default does nothing.
        """

    # ---- hooks: override what the transport does better ------------------------------------------

    def do_check_consistent(self, fingerprint: int, deadline: Deadline) -> bool:
        """A meeting of all ranks: whether they brought the same word (0 <= ``fingerprint`` <
        2**63). Every rank gets the same answer. Default: ceil(log2 n) messages of 16 bytes."""
        return derived.check_consistent(self, fingerprint, deadline)

    def do_all_reduce(
        self, x: Tensor, op: str, deadline: Deadline, into: Tensor | None = None
    ) -> Tensor:
        """``into``: the donated operand, ``x`` itself. Its handle is dead for the caller, but other
        handles may share its memory, so only memory known to have one owner may be written to."""
        return derived.all_reduce(self, x, op, deadline)

    def do_all_reduce_many(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> list[Tensor]:
        """Default: one ``do_all_reduce`` of a flat tensor per dtype."""
        return derived.all_reduce_many(self, xs, op, deadline)

    def do_broadcast(self, x: Tensor, root: int, deadline: Deadline) -> Tensor:
        """``Communicator.broadcast``. Default: the root sends to everybody."""
        return derived.broadcast(self, x, root, deadline)

    def do_reduce(self, x: Tensor, op: str, root: int, deadline: Deadline) -> Tensor | None:
        """``Communicator.reduce``. Default: the root receives in rank order."""
        return derived.reduce(self, x, op, root, deadline)

    def do_all_gather(self, x: Tensor, deadline: Deadline) -> list[Tensor]:
        """Default: parts of ``do_all_gather_tensor`` where that is overridden."""
        return derived.all_gather(self, x, deadline)

    def do_all_gather_tensor(
        self, x: Tensor, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        """``counts``: the length of axis 0 on every rank."""
        return derived.all_gather_tensor(self, x, counts, deadline)

    def do_reduce_scatter(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> Tensor:
        """Default: ``do_reduce_scatter_tensor`` of a flat tensor where that is overridden."""
        return derived.reduce_scatter(self, xs, op, deadline)

    def do_reduce_scatter_tensor(
        self, x: Tensor, op: str, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        """``counts``: how many rows of axis 0 each rank gets, in rank order."""
        return derived.reduce_scatter_tensor(self, x, op, counts, deadline)

    def do_gather(self, x: Tensor, root: int, deadline: Deadline) -> list[Tensor] | None:
        """``Communicator.gather``. Default: everybody sends to the root."""
        return derived.gather(self, x, root, deadline)

    def do_scatter(self, xs: Sequence[Tensor], root: int, deadline: Deadline) -> Tensor:
        """``xs``: one tensor per rank on the root, empty elsewhere. Shapes are free."""
        return derived.scatter(self, xs, root, deadline)

    def do_all_to_all(self, xs: Sequence[Tensor], deadline: Deadline) -> list[Tensor]:
        """``Communicator.all_to_all``. Default: everybody sends to everybody."""
        return derived.all_to_all(self, xs, deadline)

    def do_barrier(self, deadline: Deadline) -> None:
        """``Communicator.barrier``. Default: ceil(log2 n) rounds of messages."""
        derived.barrier(self, deadline)

    def do_split(self, color: int | None, key: int, deadline: Deadline) -> Communicator | None:
        """Default: a ``Group`` on the channels of this transport. A transport with groups of its
        own overrides it; ``PeerError.rank`` stays the number in the world."""
        return derived.split(self, color, key, deadline)

    def do_probe(self, src: int, tag: int, channel: int) -> bool:
        """Whether ``do_recv`` would return at once. Raises PeerError as ``do_recv`` does.

        Default: a ``do_recv`` with a deadline in the past. What it takes is kept for the next
        ``recv`` of that address.
        """
        return messages.probe(self, src, tag, channel)

    def do_recv_any(self, tag: int, channel: int, deadline: Deadline) -> tuple[int, Tensor]:
        """The next message with ``tag`` of whichever rank, and its rank. PeerError when nobody is
        left who could send. Default: ``do_probe`` of one rank after the other, with pauses."""
        return messages.recv_any(self, tag, channel, deadline)

    def _take_kept(self, src: int, tag: int, channel: int) -> Tensor | None:
        """A message that ``do_probe`` took in."""
        return self._kept.take((src, tag, channel))
