"""Touches and pins of live blocks, and the streams that use a block beside its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_memory.argument_checks import foreign_block
from fl_memory.errors import BlockError, UseAfterFreeError
from fl_memory.event_queue import EventQueue
from fl_memory.events import block_event

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fl_memory.block import Block
    from fl_memory.manager import DeviceMemory

__all__ = ["BlockUse"]


class BlockUse(EventQueue):
    """The part of ``AccountingManager`` that counts pins and streams by the block's number."""

    def __init__(self) -> None:
        super().__init__()
        self._pins: dict[int, int] = {}
        #: Streams that use a block beside its own; most programs have none.
        self._other_streams: dict[int, set[Hashable]] = {}

    def touch(self, block: Block) -> None:
        self._check_live("touch", block)
        if self._observers:
            self._tell(block_event("touch", block.address, block))

    def pin(self, block: Block) -> None:
        self._check_live("pin", block)
        with self._lock:
            before = self._pins.get(block.number, 0)
            self._pins[block.number] = before + 1
            if self._observers and not before:
                self._tell(block_event("pin", block.address, block))

    def unpin(self, block: Block) -> None:
        self._check_own("unpin", block)
        with self._lock:
            before = self._pins.pop(block.number, 0)
            if not before:
                raise BlockError(f"[unpin] {block} is not pinned; call pin first")
            if before > 1:
                self._pins[block.number] = before - 1
            elif self._observers:
                self._tell(block_event("unpin", block.address, block))

    def record_stream(self, block: Block, stream: Hashable) -> None:
        self._check_live("record_stream", block)
        if stream != block.stream:
            with self._lock:
                self._other_streams.setdefault(block.number, set()).add(stream)

    def _work_on(self, block: Block, memory: DeviceMemory) -> list[Any]:
        """Device events that say when the other streams have finished with a block that ends."""
        streams = self._other_streams.pop(block.number, ())
        found = [memory.record_event(stream) for stream in streams]
        return [event for event in found if event is not None]

    def _check_own(self, what: str, block: Block) -> None:
        this: Any = self
        if block.manager is not this:
            raise foreign_block(what, block, this)

    def _check_live(self, what: str, block: Block) -> None:
        self._check_own(what, block)
        if block.freed:
            raise UseAfterFreeError(f"[{what}] block of {block.nbytes} bytes was freed already")
