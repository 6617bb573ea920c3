"""The base class of managers: locks, finalisers, statistics, events and misuse, solved once.

A manager that derives from ``AccountingManager`` writes ``reserve``, ``recycle`` and ``trim``.
These three are never called concurrently nor re-entrantly, so they may keep plain Python state.

Garbage collection may run a finaliser at nearly any point. So a thread may call ``free``, and even
``alloc``, in the middle of its own ``reserve``. A finaliser must not wait for a lock that another
thread holds. Therefore only a thread that holds the lock changes the state, and only if no other
step is active (``_busy``). A ``free`` that cannot do so at once leaves a note in ``_notes``, which
the next step posts first. An ``alloc`` in the middle of ``reserve`` is served by the device.
"""

from __future__ import annotations

import sys
import threading
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic

from fl_memory.account import Account, AnyAccount
from fl_memory.block import Block
from fl_memory.device import device_memory
from fl_memory.errors import OutOfMemoryError
from fl_memory.forks import free_after_fork
from fl_memory.manager import SMALL_BYTES, DeviceMemory, Event, MemoryManager, Stats
from fl_memory.requests import ALIGNMENTS, checked_size, foreign_block

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class _Direct:
    """Lease of a block that came from the device while the manager was in the middle of a step."""


_DIRECT = _Direct()


class AccountingManager(MemoryManager, Generic[AnyAccount]):
    """A manager of which only the policy is missing."""

    def __init__(self, *memories: DeviceMemory, small_bytes: int = SMALL_BYTES) -> None:
        self.small_bytes = small_bytes
        self._lock = free_after_fork(threading.RLock())
        self._busy = False
        self._notes: deque[tuple[Any, ...]] = deque()
        self._accounts: dict[str, AnyAccount] = {}
        self._observers: tuple[Callable[[Event], object], ...] = ()
        self._journal: deque[Event] = deque()
        self._delivering = False
        for memory in memories:
            self._accounts[memory.device] = self.open(memory)

    # -------------------------------------------------------------- you must write

    @abstractmethod
    def reserve(
        self, account: AnyAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Any]:
        """Find room: (address, capacity >= nbytes, lease).

        The lease is whatever ``recycle`` will want to know; the tag is the caller's, for policies
        that place by purpose. Get fresh memory with ``obtain``, and
        before changing state of your own: it may call ``recycle`` and ``trim``.
        """

    @abstractmethod
    def recycle(self, account: AnyAccount, address: int, capacity: int, lease: Any) -> None:
        """The room that ``reserve`` found is empty again: keep it, or ``surrender`` it."""

    @abstractmethod
    def trim(self, account: AnyAccount) -> int:
        """``surrender`` everything that holds no live block; the number of bytes."""

    # -------------------------------------------------------------- you get for free

    def open(self, memory: DeviceMemory) -> AnyAccount:
        """The account of a device that is used for the first time; override to extend it."""
        return Account(memory)  # type: ignore[return-value]

    def obtain(
        self, account: AnyAccount, nbytes: int, alignment: int, least: int | None = None
    ) -> tuple[int, int]:
        """(address, size) of fresh memory from the device.

        When the device refuses, cached memory is released and the request repeated once; after that
        ``least`` bytes are tried, if given. Raises OutOfMemoryError.
        """
        memory = account.memory
        try:
            address = memory.allocate(nbytes, alignment)
        except OutOfMemoryError:
            self._post()
            self.trim(account)
            try:
                address = memory.allocate(nbytes, alignment)
            except OutOfMemoryError:
                if least is None or least >= nbytes:
                    raise
                nbytes = least
                address = memory.allocate(nbytes, alignment)
        account.native_allocs += 1
        account.reserved_bytes += nbytes
        account.peak_reserved_bytes = max(account.peak_reserved_bytes, account.reserved_bytes)
        if self._observers:
            self._journal.append(Event("native_alloc", address, nbytes, memory.device))
        return address, nbytes

    def surrender(self, account: Account, address: int, nbytes: int) -> None:
        """Give memory that ``obtain`` returned back to the device."""
        account.native_frees += 1
        account.reserved_bytes -= nbytes
        if self._observers:
            self._journal.append(Event("native_free", address, nbytes, account.memory.device))
        account.memory.release(address, nbytes)

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
                if self._notes:
                    self._post()
                address, capacity, lease = self.reserve(account, nbytes, alignment, stream, tag)
                account.allocs += 1
                account.used_bytes += capacity
                account.live_bytes = live = account.live_bytes + nbytes
                if live > account.peak_bytes:
                    account.peak_bytes = live
                if self._observers:
                    self._journal.append(Event("alloc", address, nbytes, device, stream, tag))
            except OutOfMemoryError as error:
                failure = self._explained(error, account, nbytes, stream, tag)
            finally:
                self._busy = False
            if failure is None:
                block = Block(address, nbytes, capacity, device, self, tag, stream, lease)
            if self._journal:
                self._deliver()
        if failure is not None:
            raise failure
        return block

    def free(self, block: Block) -> None:
        if block.manager is not self:
            raise foreign_block(block, self)
        address = block.address
        try:  # `block.retire()`, written out because every tensor passes here
            lease = block._lease
            del block._lease
        except AttributeError:
            block.retire()  # says what is wrong
            raise
        block.address = 0
        account = self._accounts[block.device]
        if self._lock.acquire(False):
            try:
                if not self._busy:
                    self._busy = True
                    try:
                        if self._notes:
                            self._post()
                        account.frees += 1
                        account.live_bytes -= block.nbytes
                        account.used_bytes -= block.capacity
                        if self._observers:
                            self._journal.append(_event("free", address, block))
                        if lease is _DIRECT:
                            self.surrender(account, address, block.capacity)
                        else:
                            self.recycle(account, address, block.capacity, lease)
                    finally:
                        self._busy = False
                    if self._journal:
                        self._deliver()
                    return
            finally:
                self._lock.release()
        # Somebody is at work, perhaps this very thread: leave a note and do not wait.
        event = _event("free", address, block)
        self._notes.append((account, event, block.capacity, lease))

    def release_cached(self) -> int:
        with self._lock:
            if self._busy:  # asked by a finaliser in the middle of a step: there is no safe moment
                return 0
            self._busy = True
            released = 0
            try:
                self._post()
                for account in list(self._accounts.values()):
                    got = self.trim(account)
                    released += got
                    if self._observers:
                        device = account.memory.device
                        self._journal.append(Event("release_cached", 0, got, device))
            finally:
                self._busy = False
            if self._journal:
                self._deliver()
        return released

    def stats(self, device: str | None = None) -> Stats:
        with self._lock:
            if not self._busy:
                self._busy = True
                try:
                    self._post()
                finally:
                    self._busy = False
                if self._journal:
                    self._deliver()
            if device is not None:
                return (self._accounts.get(device) or self._account(device)).stats()
            total = Stats()
            for account in list(self._accounts.values()):
                total += account.stats()
            return total

    def on_event(self, observer: Callable[[Event], object]) -> Callable[[], None]:
        # A wrapper of its own, so that the same function may observe twice and leave once.
        def observe(event: Event) -> object:
            return observer(event)

        with self._lock:
            self._observers = (*self._observers, observe)

        def remove() -> None:
            with self._lock:
                self._observers = tuple(o for o in self._observers if o is not observe)

        return remove

    def __repr__(self) -> str:
        held = sum(account.live_bytes for account in list(self._accounts.values()))
        return f"<{type(self).__name__} {self.name!r}: {held} bytes live>"

    def __del__(self) -> None:
        # What is cached goes back to the device. Blocks refer to their manager, so none is alive,
        # except where garbage collection found both and happens to finalise the manager first. When
        # the interpreter ends, the system takes all.
        if sys.is_finalizing():
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
        account = self.open(device_memory(device))
        return self._accounts.setdefault(device, account)

    def _post(self) -> None:
        """Do what the notes say; the caller holds the lock and has set ``_busy``."""
        notes = self._notes
        while notes:
            account, event, capacity, lease = notes.popleft()
            if self._observers:
                self._journal.append(event)
            if event.kind == "alloc":
                account.native_allocs += 1
                account.reserved_bytes += capacity
                account.peak_reserved_bytes = max(
                    account.peak_reserved_bytes, account.reserved_bytes
                )
                account.allocs += 1
                account.used_bytes += capacity
                account.live_bytes += event.nbytes
                account.peak_bytes = max(account.peak_bytes, account.live_bytes)
                continue
            account.frees += 1
            account.live_bytes -= event.nbytes
            account.used_bytes -= capacity
            if lease is _DIRECT:
                self.surrender(account, event.address, capacity)
            else:
                self.recycle(account, event.address, capacity, lease)

    def _alloc_directly(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> Block:
        capacity = nbytes or 1
        device = account.memory.device
        try:
            address = account.memory.allocate(capacity, alignment)
        except OutOfMemoryError as error:
            raise self._explained(error, account, nbytes, stream, tag) from None
        event = Event("alloc", address, nbytes, device, stream, tag)
        self._notes.append((account, event, capacity, None))
        return Block(address, nbytes, capacity, device, self, tag, stream, _DIRECT)

    def _explained(
        self,
        error: OutOfMemoryError,
        account: Account,
        nbytes: int,
        stream: Hashable,
        tag: object,
    ) -> OutOfMemoryError:
        device = account.memory.device
        if self._observers:
            self._journal.append(Event("out_of_memory", 0, nbytes, device, stream, tag))
        return OutOfMemoryError(
            nbytes,
            device,
            live_bytes=account.live_bytes,
            cached_bytes=account.reserved_bytes - account.used_bytes,
            limit=error.limit if error.limit is not None else account.memory.capacity(),
            hint=error.hint,
        )

    def _deliver(self) -> None:
        """Tell the observers; called with the lock held and the state consistent."""
        if self._delivering:  # an observer allocated or freed: the loop below is at work already
            return
        self._delivering = True
        try:
            while self._journal:
                event = self._journal.popleft()
                for observer in self._observers:
                    observer(event)
        finally:
            self._delivering = False


def _event(kind: str, address: int, block: Block) -> Event:
    return Event(kind, address, block.nbytes, block.device, block.stream, block.tag)
