"""The memory contract, version 1.0: read it from top to bottom.

``DeviceMemory`` is the memory of one device: three methods over its native allocator.
``MemoryManager`` decides who gets which piece of it, and keeps count. Tensor backends ask the
current manager for every result of at least ``small_bytes`` bytes.

To write a manager, derive from ``fl_memory.AccountingManager`` and write three short methods;
statistics, events, threads, finalisers and misuse are dealt with there. Deriving from
``MemoryManager`` itself is possible and means doing all of that. Either way
``fl_memory.testing.MemoryManagerSuite`` says whether the result is right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from fl_memory.block import Block
from fl_memory.contract import Version
from fl_memory.errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from fl_memory.events import Event
    from fl_memory.stats import Stats

__all__ = ["ADVICE", "DeviceMemory", "HOST", "MemoryManager", "SMALL_BYTES"]

#: The memory contract this distribution hosts.
HOST = Version(1, 0)

#: The default of ``MemoryManager.small_bytes``: smaller results may come from the runtime.
SMALL_BYTES = 4096

#: What ``DeviceMemory.advise`` may be told.
ADVICE = ("willneed", "cold", "free")


class DeviceMemory(ABC):
    """The native memory of one device. Safe to use from any thread."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)

    #: "cpu", "cuda:0".
    device: str = "cpu"
    #: Whether memory that nobody has written to costs nothing, as that of the host: managers follow
    #: ``reserve_hint`` only there.
    lazy_commit: bool = False

    @abstractmethod
    def allocate(self, nbytes: int, alignment: int) -> int:
        """Address of ``nbytes`` > 0 fresh bytes, a multiple of ``alignment`` (a power of two).

        Raises OutOfMemoryError when the device or an explicit limit is exhausted, and nothing else.
        """

    @abstractmethod
    def release(self, address: int, nbytes: int) -> None:
        """Give back what ``allocate(nbytes, ...)`` returned as ``address``; safe in finalisers."""

    @abstractmethod
    def capacity(self) -> int | None:
        """Bytes that may be allocated at most, None when unknown or unlimited."""

    # -------------------------------------------------------------- you may write

    @classmethod
    def for_device(cls, device: str) -> DeviceMemory:
        """The memory of ``device``, such as "cuda:1": what ``device_memory`` calls; ``cls(device)``
        by default. DeviceError when there is no such device."""
        return cls(device)  # type: ignore[call-arg]

    def advise(self, address: int, nbytes: int, advice: str) -> bool:
        """Say what will happen to a part of the memory; whether the advice was followed.

        * "willneed": it will be read or written soon; bring it into the memory of the device;
        * "cold": it will not, for a while; it may leave that memory. Its bytes are kept;
        * "free": its bytes are not needed any more, and may be lost. It stays allocated.

        A hint that does nothing by default. Only pages that lie whole in the range are affected.
        Raises AllocationError for another advice.
        """
        return False

    def record_event(self, stream: Hashable) -> Any:
        """A mark at the end of the present work of ``stream``, for ``is_complete``; None, as by
        default, where work is done when a call returns."""
        return None

    def is_complete(self, event: Any, wait: bool = False) -> bool:
        """Whether the work before ``event``, of ``record_event``, is done; with ``wait``, wait for
        it."""
        return True

    def pinned_host_memory(self) -> DeviceMemory | None:
        """Page-locked memory of the host, for copies to and from this device that run beside other
        work; None, as by default, where copies need none.

        Its device is "cpu", so a manager on it serves tensors of the host. Its ``record_event``
        marks work on streams of this device: ``record_stream`` keeps a block until its copy is
        done.
        """
        return None


class MemoryManager(ABC):
    """Decides which block gets which memory. Safe to use from any thread at any moment."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)

    #: Name in the registry and in messages.
    name: str = ""

    #: Results smaller than this need not come from this manager; 0 means that all must.
    small_bytes: int = SMALL_BYTES

    # -------------------------------------------------------------- you must write

    @abstractmethod
    def __init__(self, *memories: DeviceMemory, small_bytes: int = SMALL_BYTES) -> None:
        """Take all bytes from ``memories``; for a device not among them from ``device_memory``."""

    @abstractmethod
    def alloc(
        self,
        nbytes: int,
        *,
        device: str = "cpu",
        alignment: int = 64,
        stream: Hashable = None,
        tag: object = None,
    ) -> Block:
        """A block of at least ``nbytes`` bytes whose address is a multiple of ``alignment``.

        nbytes: any integer >= 0; a block of 0 bytes has an address of its own. alignment: a power
        of two. stream: opaque; the memory may be reused for the same stream as soon as it is
        freed, for another stream only once the first one's work is done. tag: carried by the block,
        any object; those of this library are in ``fl_memory.tags``.

        Raises AllocationError (negative size, bad alignment), DeviceError (unknown device) and
        OutOfMemoryError, this only after cached memory was released and the request tried again.
        """

    @abstractmethod
    def free(self, block: Block) -> None:
        """End the life of ``block``: its memory may serve other requests.

        Called from any thread, from ``Block.__del__``, and re-entrantly inside ``alloc`` (by a
        finaliser that garbage collection runs there): never waits for a lock. Raises
        WrongManagerError for another manager's block, DoubleFreeError for a freed one.
        """

    @abstractmethod
    def release_cached(self) -> int:
        """Return all memory that no live block occupies to the device; the number of bytes."""

    @abstractmethod
    def stats(self, device: str | None = None) -> Stats:
        """The figures for one device, or (None) the sum over devices."""

    @abstractmethod
    def on_event(self, observer: Callable[[Event], object]) -> Callable[[], None]:
        """Call ``observer(event)`` for every event from now on; returns a function to stop that.

        Events come in the order in which the manager's state changed, one at a time; ``Event``
        says when each kind is told. They may come with the manager's lock held: an observer is
        brief and waits for no other thread. It may itself allocate and free. What it raises reaches
        the caller, once the state of the manager is consistent.
        """

    # -------------------------------------------------------------- you may write

    def reserve_hint(self, nbytes: int, *, device: str = "cpu", stream: Hashable = None) -> int:
        """Say that ``nbytes`` bytes will soon be live at once; the bytes taken from the device.

        A hint: a manager may do nothing, as it does by default. A device that refuses is no error.
        Where reserved memory is what counts (``DeviceMemory.lazy_commit`` is False), it had better
        do nothing: memory in the sizes of the requests serves more programs.
        Backends give it before they run a plan whose peak they know.
        """
        return 0

    def set_limit(self, nbytes: int | None, *, device: str = "cpu") -> int | None:
        """Take at most ``nbytes`` bytes from the device, None for no limit; the limit before.

        What was taken already stays. Programs use ``with fl_memory.limit(nbytes):``. Raises
        AllocationError for a negative number, and where a manager cannot limit itself.
        """
        raise AllocationError(
            f"manager {self.name!r} has no limit; limit its device memory instead"
        )

    def touch(self, block: Block) -> None:  # noqa: B027 - nobody has to
        """``block`` will be read or written next. Does nothing by default."""

    def pin(self, block: Block) -> None:  # noqa: B027 - nobody has to
        """Keep the bytes of ``block`` resident in the memory of the device until ``unpin``, which
        is called as often. Does nothing by default. Page-locked host memory is something else: see
        ``DeviceMemory.pinned_host_memory``."""

    def unpin(self, block: Block) -> None:  # noqa: B027 - nobody has to
        """Take back one ``pin``. Does nothing by default."""

    def record_stream(self, block: Block, stream: Hashable) -> None:  # noqa: B027 - nobody has to
        """``stream``, too, works on ``block``: when the block is freed, its memory serves no
        other request before that work is done. Does nothing by default."""

    def mark(self, name: str, number: int = 0) -> None:  # noqa: B027 - nobody has to
        """The program has reached a point, such as ("step", 12). Does nothing by default.

        Programs call ``fl_memory.mark``. A manager that plans learns here where a step ends, and
        observers are told an event of kind "mark".
        """
