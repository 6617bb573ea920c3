"""The base class of managers: locks, finalisers, statistics, events and misuse, solved once.

A manager that derives from ``AccountingManager`` writes ``allocate_chunk``, ``free_chunk`` and
``trim``. These are never called concurrently nor re-entrantly, so they may keep plain Python state.

Garbage collection may run a finaliser at nearly any point. So a thread may call ``free``, and even
``alloc``, in the middle of its own ``allocate_chunk``. A finaliser must not wait for a lock that
another thread holds. Therefore only a thread that holds the lock changes the state, and only if no
other step is active (``_busy``). A ``free`` that cannot do so at once leaves an entry in
``_pending``, which the next step applies first. An ``alloc`` in the middle of a step is served by
the device.

``event_queue.py`` tells the observers.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections import deque
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Generic

from fl_memory.account import Account, AnyAccount, allocate_within_limit
from fl_memory.argument_checks import ALIGNMENTS, checked_limit, checked_size, foreign_block
from fl_memory.block import Block
from fl_memory.block_use import BlockUse
from fl_memory.device import device_memory
from fl_memory.errors import AllocationError, OutOfMemoryError
from fl_memory.events import Event, block_event, device_event
from fl_memory.exhaustion import explained
from fl_memory.manager import SMALL_BYTES, DeviceMemory, MemoryManager
from fl_memory.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping


class _Direct:
    """Handle of a block that came from the device while the manager was in the middle of a step."""


_DIRECT = _Direct()


class AccountingManager(BlockUse, MemoryManager, Generic[AnyAccount]):
    """A manager of which only the policy is missing: three methods of a derived class."""

    def __init__(self, *memories: DeviceMemory, small_bytes: int = SMALL_BYTES) -> None:
        """Call ``open_account`` for each memory: a derived class sets its own fields before.

        Raises AllocationError for ``small_bytes`` below 0, and for what is no DeviceMemory.
        """
        if type(small_bytes) is not int or small_bytes < 0:
            raise AllocationError(f"small_bytes={small_bytes!r}: give an integer >= 0")
        self.small_bytes = small_bytes
        for memory in memories:
            if not isinstance(memory, DeviceMemory):
                raise AllocationError(f"{type(self).__name__}({memory!r}): give a DeviceMemory")
        super().__init__()
        self._numbers = count(1)
        #: (account, event, handle, work of other streams that must be done first or None)
        self._pending: deque[tuple[AnyAccount, Event, Any, list[Any] | None]] = deque()
        self._accounts: dict[str, AnyAccount] = {}
        for memory in memories:
            self._accounts[memory.device] = self.open_account(memory)

    # -------------------------------------------------------------- you must write

    @abstractmethod
    def allocate_chunk(
        self, account: AnyAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Any]:
        """Find a chunk for a block: (address, capacity, handle).

        nbytes may be 0, capacity is at least 1 and at least nbytes; the address is a multiple of
        ``alignment``. The handle is whatever ``free_chunk`` will need; the tag is the caller's, for
        policies that place by purpose. Memory of one stream must not serve another.
        Take new memory with ``device_allocate``, before you change state of your own: it may call
        ``trim`` and ``free_chunk``. Raises OutOfMemoryError only.
        """

    @abstractmethod
    def free_chunk(self, account: AnyAccount, address: int, capacity: int, handle: Any) -> None:
        """Take back the chunk that ``allocate_chunk`` found: cache it, or ``device_free`` it."""

    @abstractmethod
    def trim(self, account: AnyAccount) -> int:
        """``device_free`` everything that holds no live block; the number of bytes."""

    # -------------------------------------------------------------- you may write

    def open_account(self, memory: DeviceMemory) -> AnyAccount:
        """The account of a device that is used for the first time; override to extend it."""
        return Account(memory)  # type: ignore[return-value]

    def preallocate(self, account: AnyAccount, nbytes: int, stream: Hashable) -> int:
        """Act on ``reserve_hint``: take memory to cut chunks from; the bytes taken from the device.

        Nothing by default. Called like ``allocate_chunk``; may raise OutOfMemoryError.
        """
        return 0

    # -------------------------------------------------------------- for derived classes

    @contextmanager
    def locked(self) -> Iterator[Mapping[str, AnyAccount]]:
        """Within ``with self.locked() as accounts:`` the state may be changed; accounts by device.

        For methods of a derived class that programs call. The three methods of the policy are not
        called meanwhile, from any thread. ``accounts`` is empty if a finaliser asks in the middle
        of another step: nothing may be changed then.
        """
        with self._lock:
            if self._busy:
                yield {}
                return
            self._busy = True
            try:
                self._apply_pending()
                yield self._accounts
            finally:
                self._busy = False
            if self._undelivered:
                self._notify_observers()

    def device_allocate(
        self, account: AnyAccount, nbytes: int, alignment: int, min_bytes: int | None = None
    ) -> tuple[int, int]:
        """(address, size) of fresh memory, for ``allocate_chunk`` and ``preallocate``.

        nbytes: at least 1. When the device refuses, cached memory is released and the request
        repeated once. After that ``min_bytes`` bytes are tried, if given. So size is ``nbytes`` or
        ``min_bytes``. Raises OutOfMemoryError.
        """
        memory = account.memory
        try:
            address = allocate_within_limit(account, nbytes, alignment)
        except OutOfMemoryError:
            self._apply_pending(wait=True)
            self.trim(account)
            try:
                address = allocate_within_limit(account, nbytes, alignment)
            except OutOfMemoryError:
                if min_bytes is None or min_bytes >= nbytes:
                    raise
                nbytes = min_bytes
                address = allocate_within_limit(account, nbytes, alignment)
        account.device_allocs += 1
        account.reserved_bytes += nbytes
        account.peak_reserved_bytes = max(account.peak_reserved_bytes, account.reserved_bytes)
        if self._observers:
            self._undelivered.append(
                device_event("device_alloc", address, nbytes, memory.device, alignment)
            )
        return address, nbytes

    def device_free(self, account: AnyAccount, address: int, nbytes: int) -> None:
        """Return memory of ``device_allocate`` to the device."""
        account.device_frees += 1
        account.reserved_bytes -= nbytes
        if self._observers:
            self._undelivered.append(
                device_event("device_free", address, nbytes, account.memory.device)
            )
            self._notify_observers()
        account.memory.release(address, nbytes)

    # -------------------------------------------------------------- the manager

    def alloc(
        self,
        nbytes: int,
        *,
        device: str = "cpu",
        alignment: int = 64,
        stream: Hashable = None,
        tag: object = None,
    ) -> Block:
        if (
            type(nbytes) is not int
            or nbytes < 0
            or type(alignment) is not int
            or alignment not in ALIGNMENTS
        ):
            nbytes = checked_size(nbytes, alignment)
        try:
            account = self._accounts[device]
        except KeyError:
            account = self._account(device)
        failure = None
        with self._lock:
            if self._busy:
                return self._alloc_directly(account, nbytes, alignment, stream, tag)
            self._busy = True
            try:
                if self._pending:
                    self._apply_pending()
                address, capacity, handle = self.allocate_chunk(
                    account, nbytes, alignment, stream, tag
                )
                number = next(self._numbers)
                account.allocs += 1
                account.used_bytes = used = account.used_bytes + capacity
                if used > account.peak_used_bytes:
                    account.peak_used_bytes = used
                account.live_bytes = live = account.live_bytes + nbytes
                if live > account.peak_live_bytes:
                    account.peak_live_bytes = live
                if self._observers:
                    event = Event(
                        "alloc", address, nbytes, device, stream, tag, number, capacity, alignment
                    )
                    self._undelivered.append(event)
            except OutOfMemoryError as error:
                failure = self._out_of_memory(error, account, nbytes, alignment, stream, tag)
            finally:
                self._busy = False
            if failure is None:
                block = Block(address, nbytes, capacity, device, self, tag, stream, handle, number)
            if self._undelivered:
                self._notify_observers()
        if failure is not None:
            raise failure
        return block

    def free(self, block: Block) -> None:
        if block.manager is not self:
            raise foreign_block("free", block, self)
        address = block.address
        try:  # `block.retire()`, written out because every tensor passes here
            handle = block._handle
            del block._handle
        except AttributeError:
            block.retire()  # says what is wrong
            raise
        block.address = 0
        account = self._accounts[block.device]
        if self._other_streams and (work := self._work_on(block, account.memory)):
            self._pending.append((account, block_event("free", address, block), handle, work))
            return
        if self._lock.acquire(False):
            try:
                if not self._busy:
                    self._busy = True
                    try:
                        if self._pending:
                            self._apply_pending()
                        account.frees += 1
                        account.live_bytes -= block.nbytes
                        account.used_bytes -= block.capacity
                        if self._observers:
                            self._undelivered.append(block_event("free", address, block))
                        if handle is _DIRECT:
                            self.device_free(account, address, block.capacity)
                        else:
                            self.free_chunk(account, address, block.capacity, handle)
                    finally:
                        self._busy = False
                    if self._undelivered:
                        self._notify_observers()
                    return
            finally:
                self._lock.release()
        # An operation is running, perhaps in this very thread: do not wait.
        self._pending.append((account, block_event("free", address, block), handle, None))

    def release_cached(self) -> int:
        released = 0
        with self.locked() as accounts:
            if accounts:
                self._apply_pending(wait=True)
            for device, account in list(accounts.items()):
                got = self.trim(account)
                released += got
                if self._observers:
                    self._undelivered.append(Event("release_cached", 0, got, device, capacity=got))
        return released

    def reserve_hint(self, nbytes: int, *, device: str = "cpu", stream: Hashable = None) -> int:
        nbytes = checked_size(nbytes, 1)
        account = self._accounts.get(device) or self._account(device)
        taken = 0
        with self.locked() as accounts:
            if accounts:
                try:
                    taken = self.preallocate(account, nbytes, stream)
                except OutOfMemoryError:
                    pass
                if self._observers:
                    self._undelivered.append(
                        Event("reserve_hint", 0, nbytes, device, stream, capacity=taken)
                    )
        return taken

    def mark(self, name: str, number: int = 0) -> None:
        if self._observers:
            self._tell(Event("mark", 0, 0, "", tag=name, number=number))

    def set_limit(self, nbytes: int | None, *, device: str = "cpu") -> int | None:
        account = self._accounts.get(device) or self._account(device)
        before = account.limit
        account.limit = checked_limit(nbytes)
        return before

    def stats(self, device: str | None = None) -> Stats:
        with self.locked():
            if device is not None:
                return (self._accounts.get(device) or self._account(device)).stats()
            total = Stats()
            for account in list(self._accounts.values()):
                total += account.stats()
            return total

    def __repr__(self) -> str:
        held = sum(account.live_bytes for account in list(self._accounts.values()))
        return f"<{type(self).__name__} {self.name!r}: {held} bytes live>"

    def __del__(self) -> None:
        # What is cached goes back to the device. Blocks refer to their manager, so none is alive,
        # except where garbage collection found both and happens to finalise the manager first. When
        # the interpreter ends, the system takes all; at its very end modules are None.
        if sys is None or sys.is_finalizing():
            return
        accounts = getattr(self, "_accounts", {}).values()
        if accounts:
            self.release_cached()
        if any(account.allocs != account.frees for account in accounts):
            setattr(self, "free", self._free_late)  # noqa: B010 - one instance's last method

    def _free_late(self, block: Block) -> None:
        type(self).free(self, block)
        self.release_cached()

    # ------------------------------------------------------------------ inside

    def _account(self, device: str) -> AnyAccount:
        account = self.open_account(device_memory(device))
        return self._accounts.setdefault(device, account)

    def _apply_pending(self, wait: bool = False) -> None:
        """Apply the pending operations; the caller holds the lock and has set ``_busy``. With
        ``wait``, wait for the streams that work on freed blocks; else these go on pending."""
        pending, working = self._pending, []
        try:
            while pending:
                account, event, handle, work = entry = pending.popleft()
                if work and not all(account.memory.is_complete(w, wait) for w in work):
                    working.append(entry)
                elif event.kind == "alloc":
                    self._count_direct(account, event)
                else:
                    self._apply_free(account, event, handle)
        finally:
            pending.extend(working)

    def _count_direct(self, account: AnyAccount, event: Event) -> None:
        # Observers were told when it happened.
        account.device_allocs += 1
        account.reserved_bytes += event.capacity
        account.allocs += 1
        account.used_bytes += event.capacity
        account.live_bytes += event.nbytes
        for figure in ("reserved_bytes", "used_bytes", "live_bytes"):
            highest = max(getattr(account, figure), getattr(account, f"peak_{figure}"))
            setattr(account, f"peak_{figure}", highest)

    def _apply_free(self, account: AnyAccount, event: Event, handle: Any) -> None:
        if self._observers:
            self._undelivered.append(event)
        account.frees += 1
        account.live_bytes -= event.nbytes
        account.used_bytes -= event.capacity
        if handle is _DIRECT:
            self.device_free(account, event.address, event.capacity)
        else:
            self.free_chunk(account, event.address, event.capacity, handle)

    def _alloc_directly(
        self, account: AnyAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> Block:
        memory, capacity = account.memory, nbytes or 1
        try:
            address = allocate_within_limit(account, capacity, alignment)
        except OutOfMemoryError as error:
            failure = self._out_of_memory(error, account, nbytes, alignment, stream, tag)
            self._notify_observers()
            raise failure from None
        number = next(self._numbers)
        event = Event(
            "alloc", address, nbytes, memory.device, stream, tag, number, capacity, alignment
        )
        self._pending.append((account, event, None, None))
        block = Block(address, nbytes, capacity, memory.device, self, tag, stream, _DIRECT, number)
        if self._observers:
            self._undelivered.append(
                device_event("device_alloc", address, capacity, memory.device, alignment)
            )
            self._undelivered.append(event)
            self._notify_observers()
        return block

    def _out_of_memory(
        self,
        error: OutOfMemoryError,
        account: AnyAccount,
        nbytes: int,
        alignment: int,
        stream: Hashable,
        tag: object,
    ) -> OutOfMemoryError:
        device = account.memory.device
        if self._observers:
            self._undelivered.append(
                Event("out_of_memory", 0, nbytes, device, stream, tag, alignment=alignment)
            )
        return explained(error, nbytes, account, self)
