"""``Block``: a piece of device memory, owned by a manager, until it is freed or dies."""

from __future__ import annotations

from contextlib import contextmanager
from sys import is_finalizing
from typing import TYPE_CHECKING, Any, Protocol

from fl_memory.errors import DeviceError, DoubleFreeError, UseAfterFreeError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


class BlockManager(Protocol):
    """What a block needs of its manager; the contract is ``fl_memory.MemoryManager``."""

    name: str

    def free(self, block: Block) -> None: ...

    def touch(self, block: Block) -> None: ...

    def pin(self, block: Block) -> None: ...

    def unpin(self, block: Block) -> None: ...


class Block:
    """One live allocation. Managers make blocks, users keep them, nobody copies them.

    A block is freed exactly once: by ``manager.free(block)``, or else when the last reference to it
    dies. Whatever points into the memory must therefore keep a reference to the block (``view()``
    does).
    """

    #: First byte, as an integer; 0 once the block was freed.
    address: int
    #: Bytes that were asked for.
    nbytes: int
    #: Bytes that the manager set aside, at least ``nbytes``.
    capacity: int
    #: "cpu", "cuda:0".
    device: str
    #: The manager that made it, and frees it, whichever manager is current by then.
    manager: BlockManager
    #: What the memory is for: one of ``fl_memory.tags``, or whatever the caller wishes to find.
    tag: object
    #: The stream it was asked for, None if none.
    stream: Hashable
    #: Its number among all blocks that the manager ever makes, as in events.
    number: int

    __slots__ = (
        "__weakref__",
        "_handle",
        "address",
        "capacity",
        "device",
        "manager",
        "nbytes",
        "number",
        "stream",
        "tag",
    )

    def __init__(
        self,
        address: int,
        nbytes: int,
        capacity: int,
        device: str,
        manager: BlockManager,
        tag: object = None,
        stream: Hashable = None,
        handle: Any = None,
        number: int = 0,
    ) -> None:
        """For managers: programs get blocks from ``MemoryManager.alloc``. handle: what ``retire``
        returns, for the manager's own use."""
        self.address = address
        self.nbytes = nbytes
        self.capacity = capacity
        self.device = device
        self.manager = manager
        self.tag = tag
        self.stream = stream
        self.number = number
        self._handle = handle

    @property
    def freed(self) -> bool:
        """True once the block was freed."""
        return self.address == 0

    def free(self) -> None:
        """Free the block now: short for ``block.manager.free(block)``."""
        self.manager.free(self)

    def touch(self) -> None:
        """Say that the bytes will be read or written next: a hint for managers that swap."""
        self.manager.touch(self)

    @contextmanager
    def pinned(self) -> Iterator[Block]:
        """Within ``with block.pinned():`` the bytes stay resident in the memory of the device.

        For native code that cannot fetch them again: on devices without page faults.
        """
        self.manager.pin(self)
        try:
            yield self
        finally:
            self.manager.unpin(self)

    def retire(self) -> Any:
        """For managers: claim the end of this block's life; returns the ``handle`` it carried.

        Succeeds exactly once, whichever threads try at the same moment (deleting a slot is atomic);
        every other attempt raises DoubleFreeError.
        """
        try:
            handle = self._handle
            del self._handle
        except AttributeError:
            raise DoubleFreeError(
                f"[free] block of {self.nbytes} bytes on {self.device} (tag {self.tag!r}) was "
                f"freed already; free a block once, or leave it to die"
            ) from None
        self.address = 0
        return handle

    def view(self) -> memoryview:
        """The block's ``nbytes`` bytes as a writable memoryview (format "B"), without a copy.

        The view keeps the block alive. Raises DeviceError off the host, UseAfterFreeError when the
        block was freed already.
        """
        if not self.address:
            raise UseAfterFreeError(f"[view] block of {self.nbytes} bytes was freed already")
        if self.device != "cpu":
            raise DeviceError(f"[view] memory on {self.device} is not addressable by the host")
        from fl_memory.buffers import view  # loads ctypes

        return view(self.address, self.nbytes, self)

    def __del__(self) -> None:
        try:
            address = self.address
        except AttributeError:  # its constructor failed
            return
        if address and not is_finalizing():  # 0: it was freed; at the end all memory is
            self.manager.free(self)

    def __repr__(self) -> str:
        state = "freed" if self.freed else hex(self.address)
        tag = "" if self.tag is None else f", tag={self.tag!r}"
        return f"Block({state}, {self.nbytes} of {self.capacity} bytes on {self.device}{tag})"
