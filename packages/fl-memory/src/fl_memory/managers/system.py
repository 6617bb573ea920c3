"""Pass-through: each block is one native allocation. The baseline others are measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["SystemManager"]


class SystemManager(AccountingManager[Account]):
    """Ask the device for every block, give it back at once, cache nothing."""

    CONTRACT = (1, 0)
    name = "system"

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        address, size = self.device_allocate(account, nbytes or 1, alignment)
        return address, size, None

    def free_chunk(self, account: Account, address: int, capacity: int, handle: None) -> None:
        self.device_free(account, address, capacity)

    def trim(self, account: Account) -> int:
        return 0
