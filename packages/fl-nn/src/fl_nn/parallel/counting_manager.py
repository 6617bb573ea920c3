"""A memory manager that counts the live bytes of a stretch of a program, and their peak."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fl_memory import Account
from fl_memory.managers.system import SystemManager


class CountingManager(SystemManager):
    """Counts the live bytes and their peak since the last `begin`. An observer would count them,
    too, but a step that is observed updates each parameter alone: it is another program."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0

    def begin(self) -> int:
        """The bytes alive, which are the peak from now on."""
        self.peak = self.live
        return self.live

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Any]:
        address, size, _ = super().allocate_chunk(account, nbytes, alignment, stream, tag)
        self.live += nbytes
        self.peak = max(self.peak, self.live)
        return address, size, nbytes

    def free_chunk(self, account: Account, address: int, capacity: int, handle: Any) -> None:
        super().free_chunk(account, address, capacity, None)
        self.live -= handle
