"""``Event``: what managers tell their observers."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING

from fl_memory.causes import CURRENT

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fl_memory.block import Block
    from fl_memory.causes import Cause

__all__ = ["Event", "block_event", "device_event"]


class Event:
    """Something a manager did.

    | kind | told | address | nbytes | capacity |
    |---|---|---|---|---|
    | alloc | before ``alloc`` returns | of the block | requested | of the block |
    | free | before its memory is reused | of the block | requested | of the block |
    | device_alloc | before it is used | of the memory | from the device | = nbytes |
    | device_free | before the device gets the memory | of the memory | to the device | = nbytes |
    | release_cached | after it | 0 | released | = nbytes |
    | out_of_memory | before ``alloc`` raises | 0 | requested | 0 |
    | reserve_hint | before ``reserve_hint`` returns | 0 | hinted | taken from the device |
    | mark | before ``mark`` returns | 0 | 0 | 0 |
    | touch, pin, unpin | before the call returns | of the block | requested | of the block |

    What is requested while an observer runs, by itself or by a finaliser, is told after it has
    returned. A ``free`` that found the manager at work (in a finaliser, in another thread) is told
    by whoever works next; its ``thread``, ``ns`` and ``cause`` are those of the call. So ``ns`` may
    decrease from one event to the next.
    """

    KINDS = (
        "alloc",
        "free",
        "device_alloc",
        "device_free",
        "release_cached",
        "out_of_memory",
        "reserve_hint",
        "mark",
        "touch",
        "pin",
        "unpin",
    )
    __slots__ = (
        "address",
        "alignment",
        "capacity",
        "cause",
        "device",
        "kind",
        "nbytes",
        "ns",
        "number",
        "stream",
        "tag",
        "thread",
    )

    #: One of ``KINDS``.
    kind: str
    #: First byte, see the table.
    address: int
    #: Size in bytes, see the table.
    nbytes: int
    #: "cpu", "cuda:0"; "" in a mark, which concerns all devices.
    device: str
    #: The stream of the block, or of the hint.
    stream: Hashable
    #: The tag of the block; the name in a mark.
    tag: object
    #: The number of the block, which no other block of the manager ever has, or 0; the number in a
    #: mark. Addresses recur, numbers do not.
    number: int
    #: Bytes set aside, see the table.
    capacity: int
    #: The requested alignment in "alloc", "device_alloc" and "out_of_memory", else 0.
    alignment: int
    #: ``threading.get_ident()`` of the thread that made the call.
    thread: int
    #: ``time.perf_counter_ns()`` when it happened.
    ns: int
    #: The cause of the call; None if no layer said it.
    cause: Cause | None

    def __init__(
        self,
        kind: str,
        address: int,
        nbytes: int,
        device: str,
        stream: Hashable = None,
        tag: object = None,
        number: int = 0,
        capacity: int = 0,
        alignment: int = 0,
    ) -> None:
        """``thread``, ``ns`` and ``cause`` are those of this call."""
        self.kind = kind
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self.stream = stream
        self.tag = tag
        self.number = number
        self.capacity = capacity
        self.alignment = alignment
        self.thread = get_ident()
        self.ns = perf_counter_ns()
        self.cause = CURRENT.get()

    def __repr__(self) -> str:
        number = f" {self.number}" if self.number else ""
        return (
            f"Event({self.kind}{number}, {hex(self.address)}, {self.nbytes} bytes on {self.device})"
        )


def block_event(kind: str, address: int, block: Block) -> Event:
    """The event of a block; ``address`` is what it is, or was."""
    b = block
    return Event(kind, address, b.nbytes, b.device, b.stream, b.tag, b.number, b.capacity)


def device_event(kind: str, address: int, nbytes: int, device: str, alignment: int = 0) -> Event:
    """The event of memory that came from the device, or goes back."""
    return Event(kind, address, nbytes, device, capacity=nbytes, alignment=alignment)
