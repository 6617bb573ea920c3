"""The memory contract, version 1.0: read it from top to bottom.

``DeviceMemory`` is the raw memory of one device: three methods over its native allocator.
``MemoryManager`` decides who gets which piece of it, and keeps count. Tensor backends ask the
current manager for every result of at least ``small_bytes`` bytes.

To write a manager, derive from ``fl_memory.AccountingManager`` and write three short methods;
statistics, events, threads, finalisers and misuse are dealt with there. Deriving from
``MemoryManager`` itself is possible and means doing all of that. Either way
``fl_memory.testing.MemoryManagerSuite`` says whether the result is right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from fl_memory.block import Block
from fl_memory.contract import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["DeviceMemory", "Event", "HOST", "MemoryManager", "SMALL_BYTES", "Stats"]

#: The memory contract this distribution hosts.
HOST = Version(1, 0)

#: The default of ``MemoryManager.small_bytes``: smaller results may come from the runtime.
SMALL_BYTES = 4096


class DeviceMemory(ABC):
    """The native memory of one device."""

    #: "cpu", "cuda:0"
    device: str = "cpu"

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


class MemoryManager(ABC):
    """Who gets which memory. Safe to use from any thread at any moment."""

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
        freed, for another stream only once the first one's work is done. tag: carried by the block.

        Raises AllocationError (negative size, bad alignment), DeviceError (unknown device) and
        OutOfMemoryError, this only after cached memory was released and the request tried again.
        """

    @abstractmethod
    def free(self, block: Block) -> None:
        """Take ``block`` back: its memory may be lent again.

        Called from any thread, from ``Block.__del__``, and re-entrantly inside ``alloc`` (by a
        finaliser that garbage collection runs there): never waits for a lock. Raises
        WrongManagerError for another manager's block, DoubleFreeError for one that went home.
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

        Events come in the order in which the manager's state changed, one at a time, and may come
        with the manager's lock held: an observer is brief and waits for no other thread. It may
        itself allocate and free. What it raises reaches the caller; the state stays consistent.
        """


class Stats:
    """A manager's figures at one moment.

    ``live_bytes`` counts requested bytes, ``used_bytes`` the same blocks with their rounding;
    ``reserved_bytes`` is what the device gave, ``cached_bytes`` the part of it that no block uses:
    ``live <= used`` and ``reserved == used + cached``. Totals over devices add up, peaks too.
    """

    FIELDS = (
        "live_bytes",
        "live_blocks",
        "used_bytes",
        "cached_bytes",
        "reserved_bytes",
        "peak_bytes",
        "peak_reserved_bytes",
        "allocs",
        "frees",
        "native_allocs",
        "native_frees",
    )
    __slots__ = FIELDS

    live_bytes: int
    live_blocks: int
    used_bytes: int
    cached_bytes: int
    reserved_bytes: int
    #: Highest ``live_bytes`` so far.
    peak_bytes: int
    peak_reserved_bytes: int
    allocs: int
    frees: int
    #: Calls of ``DeviceMemory.allocate`` and ``release``.
    native_allocs: int
    native_frees: int

    def __init__(self, **figures: int) -> None:
        for field in self.FIELDS:
            setattr(self, field, figures.pop(field, 0))
        if figures:
            raise TypeError(f"Stats has no field {', '.join(sorted(figures))}")

    def as_dict(self) -> dict[str, int]:
        return {field: getattr(self, field) for field in self.FIELDS}

    def __add__(self, other: Stats) -> Stats:
        return Stats(**{f: getattr(self, f) + getattr(other, f) for f in self.FIELDS})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stats) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Stats({', '.join(f'{k}={v}' for k, v in self.as_dict().items())})"


class Event:
    """Something a manager did.

    ``kind`` is one of ``KINDS``; ``address`` and ``nbytes`` say to what (for "release_cached" and
    "out_of_memory" the address is 0 and nbytes the bytes released or asked for). Block events
    carry the block's requested ``nbytes``, ``stream`` and ``tag``.
    """

    KINDS = ("alloc", "free", "native_alloc", "native_free", "release_cached", "out_of_memory")
    __slots__ = ("address", "device", "kind", "nbytes", "stream", "tag")

    kind: str
    address: int
    nbytes: int
    device: str
    stream: Hashable
    tag: object

    def __init__(
        self,
        kind: str,
        address: int,
        nbytes: int,
        device: str,
        stream: Hashable = None,
        tag: object = None,
    ) -> None:
        self.kind = kind
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self.stream = stream
        self.tag = tag

    def __repr__(self) -> str:
        return f"Event({self.kind}, {hex(self.address)}, {self.nbytes} bytes on {self.device})"
