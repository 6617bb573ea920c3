"""``FlError``, the base class of all errors of the library, and the errors of this package."""

from __future__ import annotations

__all__ = [
    "AllocationError", "BlockError", "ContractError", "DeviceError", "DoubleFreeError", "FlError",
    "MissingError", "OutOfMemoryError", "PluginError", "TraceError", "UseAfterFreeError",
    "WrongManagerError",
]  # fmt: skip


class FlError(Exception):
    """Base of every error that this library raises on purpose.

    Subclasses derive from the ordinary Python class as well (``ValueError``, ``MemoryError`` ...),
    so that handlers which know nothing of this library keep working.
    """


class ContractError(FlError, ImportError):
    """A provider was written against a contract that this process does not host."""


class PluginError(FlError, LookupError):
    """A plug-in is unknown, offered twice, or cannot be imported."""


class MissingError(FlError, ModuleNotFoundError):
    """A package that an optional part takes, and that is not installed."""


class AllocationError(FlError, ValueError):
    """A request that no manager can honour: negative size, alignment that is no power of two; or an
    argument that makes no sense: a limit, an advice, an observer that cannot be called."""


class DeviceError(FlError, ValueError):
    """A device that nobody has told this process how to reach."""


class BlockError(FlError, ValueError):
    """A block was used against its rules."""


class DoubleFreeError(BlockError):
    """A block was freed a second time."""


class WrongManagerError(BlockError):
    """A block was freed through a manager that did not make it."""


class UseAfterFreeError(BlockError):
    """Memory was read or written after its block was freed, or beyond its end."""


class TraceError(FlError, ValueError):
    """A trace of memory events is damaged, or its rows contradict one another."""


_ADVICE = (
    "free tensors, use smaller batches, recompute instead of saving for the backward pass, or "
    "raise the limit"
)


class OutOfMemoryError(FlError, MemoryError):
    """Device memory or an explicit limit is exhausted.

    The attributes are the figures of the message; None where nobody knows. A device memory gives
    the request, and the limit that refused it. A manager adds the rest.
    """

    #: Bytes that were asked for.
    requested: int
    #: "cpu", "cuda:0".
    device: str
    #: As ``Stats.live_bytes``.
    live_bytes: int | None
    #: As ``Stats.cached_bytes``.
    cached_bytes: int | None
    #: As ``Stats.largest_free_chunk``.
    largest_free_chunk: int | None
    #: Bytes that the device has.
    capacity: int | None
    #: Bytes that an explicit limit allows.
    limit: int | None
    #: What holds most live bytes, at most three, as (what, bytes, number of blocks). What: the
    #: operation and module, such as "matmul in encoder.0", of blocks whose allocation an active
    #: ``observe`` has seen, else the tag.
    holders: tuple[tuple[object, int, int], ...]
    #: What to try.
    hint: str

    def __init__(
        self,
        requested: int,
        device: str,
        *,
        live_bytes: int | None = None,
        cached_bytes: int | None = None,
        largest_free_chunk: int | None = None,
        capacity: int | None = None,
        limit: int | None = None,
        holders: tuple[tuple[object, int, int], ...] = (),
        hint: str = "",
    ) -> None:
        """hint: "" for the usual advice."""
        self.requested = requested
        self.device = device
        self.live_bytes = live_bytes
        self.cached_bytes = cached_bytes
        self.largest_free_chunk = largest_free_chunk
        self.capacity = capacity
        self.limit = limit
        self.holders = holders
        self.hint = hint or _ADVICE
        super().__init__(requested, device)

    def __str__(self) -> str:
        figures = [
            f"{name} {value} bytes"
            for name, value in (
                ("live", self.live_bytes),
                ("cached", self.cached_bytes),
                ("largest free chunk", self.largest_free_chunk),
                ("limit", self.limit),
                ("capacity", None if self.capacity == self.limit else self.capacity),
            )
            if value is not None
        ]
        held = f" ({', '.join(figures)})" if figures else ""
        holders = [
            f"{'untagged' if tag is None else tag} {nbytes} bytes in {blocks} blocks"
            for tag, nbytes, blocks in self.holders
        ]
        most = f"; most is held as {', '.join(holders)}" if holders else ""
        return (
            f"[alloc] {self.requested} bytes on {self.device}: out of memory{held}{most}; "
            f"{self.hint}"
        )
