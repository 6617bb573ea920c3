"""``Stats``: the figures of a manager at one moment."""

from __future__ import annotations

__all__ = ["Stats"]


class Stats:
    """The figures of a manager at one moment, for one device or for all.

    ``live <= used`` and ``reserved == used + cached``. Internal fragmentation is
    ``1 - live / used``, external fragmentation ``1 - used / reserved``.

    The sum of two devices adds every figure except ``largest_free_chunk``, which is the greater
    one. Devices need not peak at the same moment, so a sum of peaks is an upper bound of the common
    peak.
    """

    FIELDS = (
        "live_bytes",
        "live_blocks",
        "used_bytes",
        "cached_bytes",
        "reserved_bytes",
        "largest_free_chunk",
        "peak_live_bytes",
        "peak_used_bytes",
        "peak_reserved_bytes",
        "allocs",
        "frees",
        "device_allocs",
        "device_frees",
    )
    __slots__ = FIELDS

    #: Requested bytes of all live blocks.
    live_bytes: int
    #: Number of live blocks.
    live_blocks: int
    #: Capacity of all live blocks in bytes: the requests with their rounding.
    used_bytes: int
    #: Bytes that the device gave and no live block uses.
    cached_bytes: int
    #: Bytes that the device gave and has not got back.
    reserved_bytes: int
    #: Bytes of the largest free chunk that is cached in one piece; 0 if nothing is cached, or if
    #: the manager does not know. Merging of neighbours may make a larger one.
    largest_free_chunk: int
    #: Highest ``live_bytes`` so far.
    peak_live_bytes: int
    #: Highest ``used_bytes`` so far.
    peak_used_bytes: int
    #: Highest ``reserved_bytes`` so far.
    peak_reserved_bytes: int
    #: Number of blocks made so far.
    allocs: int
    #: Number of blocks freed so far.
    frees: int
    #: Number of calls of ``DeviceMemory.allocate`` that succeeded.
    device_allocs: int
    #: Number of calls of ``DeviceMemory.release``.
    device_frees: int

    def __init__(self, **figures: int) -> None:
        """A figure that is not given is 0. TypeError for a name that is not in ``FIELDS``."""
        for field in self.FIELDS:
            setattr(self, field, figures.pop(field, 0))
        if figures:
            raise TypeError(f"Stats has no field {', '.join(sorted(figures))}")

    def as_dict(self) -> dict[str, int]:
        """The figures by name, in the order of ``FIELDS``."""
        return {field: getattr(self, field) for field in self.FIELDS}

    def __add__(self, other: Stats) -> Stats:
        figures = {f: getattr(self, f) + getattr(other, f) for f in self.FIELDS}
        figures["largest_free_chunk"] = max(self.largest_free_chunk, other.largest_free_chunk)
        return Stats(**figures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stats) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Stats({', '.join(f'{k}={v}' for k, v in self.as_dict().items())})"
