"""``Block``: a piece of device memory, owned by a manager, until it is freed or dies."""

from __future__ import annotations

from sys import is_finalizing
from typing import TYPE_CHECKING, Any

from fl_memory.errors import DeviceError, DoubleFreeError, UseAfterFreeError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fl_memory.manager import MemoryManager


class Block:
    """One live allocation. Managers make blocks, users keep them, nobody copies them.

    * ``address``: first byte, as an integer; 0 once the block went home;
    * ``nbytes``: what was asked for; ``capacity``: what the manager set aside (>= nbytes);
    * ``device``: "cpu", "cuda:0"; ``stream``: the stream it was asked for, None if none;
    * ``manager``: where it goes home to, whichever manager is current by then;
    * ``tag``: whatever the caller wished to find again in events and leak reports.

    A block goes home exactly once: through ``manager.free(block)``, or, if nobody did that, when
    the last reference to it dies. Whatever points into the memory must therefore keep a reference
    to the block (``view()`` does).
    """

    __slots__ = (
        "__weakref__",
        "_lease",
        "address",
        "capacity",
        "device",
        "manager",
        "nbytes",
        "stream",
        "tag",
    )

    def __init__(
        self,
        address: int,
        nbytes: int,
        capacity: int,
        device: str,
        manager: MemoryManager,
        tag: object = None,
        stream: Hashable = None,
        lease: Any = None,
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.capacity = capacity
        self.device = device
        self.manager = manager
        self.tag = tag
        self.stream = stream
        self._lease = lease

    @property
    def freed(self) -> bool:
        """True once the block went home."""
        return self.address == 0

    def free(self) -> None:
        """Send the block home now: short for ``block.manager.free(block)``."""
        self.manager.free(self)

    def retire(self) -> Any:
        """For managers: claim the end of this block's life; returns the ``lease`` it carried.

        Succeeds exactly once, whichever threads try at the same moment (deleting a slot is atomic);
        every other attempt raises DoubleFreeError.
        """
        try:
            lease = self._lease
            del self._lease
        except AttributeError:
            raise DoubleFreeError(
                f"[free] block of {self.nbytes} bytes on {self.device} (tag {self.tag!r}) was "
                f"freed already; free a block once, or leave it to die"
            ) from None
        self.address = 0
        return lease

    def view(self) -> memoryview:
        """The block's ``nbytes`` bytes as a writable memoryview (format "B"), without a copy.

        The view keeps the block alive. Raises DeviceError off the host, UseAfterFreeError when the
        block went home already.
        """
        if not self.address:
            raise UseAfterFreeError(f"[view] block of {self.nbytes} bytes was freed already")
        if self.device != "cpu":
            raise DeviceError(f"[view] memory on {self.device} is not addressable by the host")
        from fl_memory.host import borrow

        return borrow(self.address, self.nbytes, self)

    def __del__(self) -> None:
        try:
            address = self.address
        except AttributeError:  # its constructor failed
            return
        if address and not is_finalizing():  # 0: it went home already; at the end all memory does
            self.manager.free(self)

    def __repr__(self) -> str:
        state = "freed" if self.freed else hex(self.address)
        tag = "" if self.tag is None else f", tag={self.tag!r}"
        return f"Block({state}, {self.nbytes} of {self.capacity} bytes on {self.device}{tag})"
