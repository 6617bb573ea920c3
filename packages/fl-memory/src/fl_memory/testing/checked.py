"""``CheckedManager``: a wrapper that checks a manager and its users in a real run.

with mem.use(CheckedManager(mem.current())) as checked:
    train()
    checked.verify()
    assert not checked.leaks()
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Hashable

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.block import Block
from fl_memory.errors import BlockError, FlError, OutOfMemoryError, UseAfterFreeError
from fl_memory.events import Event
from fl_memory.manager import DeviceMemory, MemoryManager
from fl_memory.testing.ledger import BlockLedger

_FRESH, _FREED, _GUARD = 0xCD, 0xDD, 0xFD


class _InnerDeviceMemory(DeviceMemory):
    """Stands where native memory would: the wrapped manager is this manager's device."""

    def __init__(self, inner: MemoryManager, device: str) -> None:
        self.inner = inner
        self.device = device
        self._kept: dict[int, Block] = {}

    def allocate(self, nbytes: int, alignment: int) -> int:
        # Only for a finaliser that allocates in the middle of a step; kept until released.
        block = self.inner.alloc(nbytes, device=self.device, alignment=alignment)
        self._kept[block.address] = block
        return block.address

    def release(self, address: int, nbytes: int) -> None:
        self._kept.pop(address).free()

    def capacity(self) -> int | None:
        return None


class _InnerAccount(Account):
    """The figures of one device; what the device gave is counted by the wrapped manager."""

    def __init__(self, memory: _InnerDeviceMemory) -> None:
        super().__init__(memory)
        self._inner = memory.inner

    def largest_free_chunk(self) -> int:
        return self._inner.stats(self.memory.device).largest_free_chunk


class CheckedManager(AccountingManager[Account]):
    """Everything that ``inner`` does, with both sides of the contract checked.

    Of users: freeing twice or through the wrong manager (DoubleFreeError, WrongManagerError),
    writing to a block that was freed or beyond a block's end (UseAfterFreeError; found when the
    memory is about to be reused, and by ``verify``). Host blocks are filled with 0xCD when lent and
    0xDD when freed, followed by a guard zone, and freed ones wait in quarantine.
    Of ``inner``: overlapping, misaligned, too small or foreign blocks (BlockError).

    What is found in a finaliser cannot be raised there in a way that anybody sees, so all findings
    are kept in ``faults`` as well, and ``verify()`` raises the first one.
    """

    CONTRACT = (1, 0)
    name = "checked"

    def __init__(
        self, inner: MemoryManager, *, guard: int = 64, quarantine_bytes: int = 1 << 24
    ) -> None:
        self.inner = inner
        self.guard = guard
        self.quarantine_bytes = quarantine_bytes
        self.faults: list[FlError] = []
        self._live = BlockLedger()
        self._handles: dict[int, tuple[Block, int]] = {}
        self._quarantine: deque[Block] = deque()
        self._quarantined = 0
        super().__init__(small_bytes=inner.small_bytes)
        # Through a weak reference: a long-lived manager must not keep its watchers alive.
        watcher = weakref.ref(self)

        def forward(event: Event) -> None:
            checked = watcher()
            if checked is None or not checked._observers or not event.kind.startswith("device_"):
                return
            checked._undelivered.append(event)
            if checked._lock.acquire(blocking=False):
                try:
                    checked._notify_observers()
                finally:
                    checked._lock.release()

        self._stop = inner.on_event(forward)

    def verify(self) -> None:
        """Look at all guards and all freed memory now; raise the first fault ever found."""
        with self._lock:
            for block, nbytes in list(self._handles.values()):
                self._check_guard(block, nbytes, block.tag)
            for block in list(self._quarantine):
                self._check_poison(block)
        if self.faults:
            raise self.faults[0]

    def leaks(self) -> list[str]:
        """One line for each block that is still live."""
        with self._lock:
            return [
                f"{nbytes} bytes on {block.device} at {hex(address)}, tag {block.tag!r}"
                for address, (block, nbytes) in sorted(self._handles.items())
            ]

    # ------------------------------------------------------------------ the policy

    def _account(self, device: str) -> Account:
        self.inner.stats(device)  # an unknown device is an error of inner's
        account = _InnerAccount(_InnerDeviceMemory(self.inner, device))
        return self._accounts.setdefault(device, account)

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Block]:
        device = account.memory.device
        wanted = nbytes + self.guard
        try:
            block = self.inner.alloc(
                wanted, device=device, alignment=alignment, stream=stream, tag=tag
            )
        except OutOfMemoryError:
            self._release_quarantine(0)
            block = self.inner.alloc(
                wanted, device=device, alignment=alignment, stream=stream, tag=tag
            )
        self._check_block(block, wanted, device, alignment)
        self._live.add(block.address, nbytes, wanted)
        if device == "cpu":
            ctypes.memset(block.address, _FRESH, nbytes)
            ctypes.memset(block.address + nbytes, _GUARD, self.guard)
        self._handles[block.address] = (block, nbytes)
        self._copy_device_figures(account)
        return block.address, block.capacity, block

    def free_chunk(self, account: Account, address: int, capacity: int, handle: Block) -> None:
        _, nbytes = self._handles.pop(address)
        self._live.remove(address, nbytes)
        if handle.freed:  # garbage collection found both and finalised inner's block first
            return
        fault = self._check_guard(handle, nbytes, handle.tag)
        if handle.device == "cpu":
            ctypes.memset(address, _FREED, handle.nbytes)
        self._quarantine.append(handle)
        self._quarantined += handle.nbytes
        self._release_quarantine(self.quarantine_bytes)
        self._copy_device_figures(account)
        if fault is not None:
            raise fault

    def preallocate(self, account: Account, nbytes: int, stream: Hashable) -> int:
        taken = self.inner.reserve_hint(nbytes, device=account.memory.device, stream=stream)
        self._copy_device_figures(account)
        return taken

    def mark(self, name: str, number: int = 0) -> None:
        self.inner.mark(name, number)
        super().mark(name, number)

    def set_limit(self, nbytes: int | None, *, device: str = "cpu") -> int | None:
        return self.inner.set_limit(nbytes, device=device)

    def touch(self, block: Block) -> None:
        super().touch(block)
        self.inner.touch(self._handles[block.address][0])

    def pin(self, block: Block) -> None:
        super().pin(block)
        self.inner.pin(self._handles[block.address][0])

    def unpin(self, block: Block) -> None:
        super().unpin(block)
        if not block.freed:
            self.inner.unpin(self._handles[block.address][0])

    def record_stream(self, block: Block, stream: Hashable) -> None:
        # Its quarantine is on the host, which works for no stream: the inner manager waits.
        self._check_live("record_stream", block)
        self.inner.record_stream(self._handles[block.address][0], stream)

    def trim(self, account: Account) -> int:
        self._release_quarantine(0)
        released = self.inner.release_cached()
        self._copy_device_figures(account)
        return released

    def __del__(self) -> None:
        if hasattr(self, "_stop"):
            self._stop()
        super().__del__()

    # ------------------------------------------------------------------ inside

    def _copy_device_figures(self, account: Account) -> None:
        # What the device gave is inner's business; quarantine counts as cached.
        inner = self.inner.stats(account.memory.device)
        account.reserved_bytes = inner.reserved_bytes
        account.peak_reserved_bytes = inner.peak_reserved_bytes
        account.device_allocs = inner.device_allocs
        account.device_frees = inner.device_frees

    def _check_block(self, block: Block, wanted: int, device: str, alignment: int) -> None:
        wrong = [
            text
            for text, bad in (
                (f"address {hex(block.address)}", block.address <= 0),
                (f"alignment of {hex(block.address)}", block.address % alignment != 0),
                (f"nbytes {block.nbytes}", block.nbytes != wanted),
                (f"capacity {block.capacity}", block.capacity < wanted),
                (f"device {block.device!r}", block.device != device),
                ("manager", block.manager is not self.inner),
            )
            if bad
        ]
        if wrong:
            raise self._fault(
                BlockError(
                    f"[alloc] manager {self.inner.name!r} was asked for {wanted} bytes on {device} "
                    f"aligned to {alignment}, and answered with a wrong {', '.join(wrong)}"
                )
            )

    def _check_guard(self, block: Block, nbytes: int, tag: object) -> FlError | None:
        if block.device != "cpu" or not self.guard:
            return None
        if not bytes(block.view()[nbytes:]).strip(bytes([_GUARD])):
            return None
        return self._fault(
            UseAfterFreeError(
                f"[free] somebody wrote beyond the end of a block of {nbytes} bytes (tag {tag!r})"
            )
        )

    def _check_poison(self, block: Block) -> None:
        if block.device == "cpu" and bytes(block.view()).strip(bytes([_FREED])):
            ctypes.memset(block.address, _FREED, block.nbytes)  # report it once
            self._fault(
                UseAfterFreeError(
                    f"[reuse] somebody wrote to a block of {block.nbytes - self.guard} bytes "
                    f"after it was freed"
                )
            )

    def _release_quarantine(self, keep: int) -> None:
        while self._quarantine and self._quarantined > keep:
            block = self._quarantine.popleft()
            self._quarantined -= block.nbytes
            self._check_poison(block)
            block.free()

    def _fault(self, fault: FlError) -> FlError:
        self.faults.append(fault)
        return fault
