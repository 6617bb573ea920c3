"""``compare``: the figures of several managers on one trace, and ``minimum_capacity``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fl_memory.errors import OutOfMemoryError, TraceError
from fl_memory.traces.addresses import AddressMemory
from fl_memory.traces.replay import AnyManager, Replay, replay
from fl_memory.traces.trace import Trace

__all__ = ["RESOLUTION", "Comparison", "compare", "minimum_capacity"]

#: The resolution of ``minimum_capacity``, as a share of the peak of live bytes.
RESOLUTION = 0.004
#: The search gives up at this multiple of the peak of live bytes, and doubles from this capacity.
MOST, MIN_CAPACITY = 16, 1 << 20


@dataclass(frozen=True)
class Comparison:
    """One manager on one trace: its replay without a bound, and the least capacity that it needs
    (None: more than 16 times the peak of live bytes)."""

    manager: str
    replay: Replay
    minimum_capacity: int | None

    @property
    def fits(self) -> float | None:
        """``minimum capacity / peak live``."""
        if self.minimum_capacity is None:
            return None
        return self.minimum_capacity / max(self.replay.peak_live_bytes, 1)

    def as_dict(self) -> dict[str, Any]:
        """The figures by name, as JSON can say them."""
        run = self.replay
        return {
            "manager": self.manager,
            "over": run.over,
            "fits": self.fits,
            "internal": run.internal,
            "external": run.external,
            "peak_live_bytes": run.peak_live_bytes,
            "peak_used_bytes": run.peak_used_bytes,
            "peak_reserved_bytes": run.peak_reserved_bytes,
            "minimum_capacity": self.minimum_capacity,
            "allocs": run.allocs,
            "device_allocs": run.device_allocs,
        }


def compare(
    trace: Trace,
    managers: Mapping[str, AnyManager],
    *,
    hints: bool = True,
    resolution: float = RESOLUTION,
    done: Callable[[str], object] = lambda name: None,
) -> list[Comparison]:
    """Each of ``managers`` (by the name it is to have in the result) on ``trace``.

    ``done(name)`` is called after each of them. Raises BlockError for a manager whose blocks are
    wrong, as ``replay`` does, and TraceError for ``managers`` that are no mapping.
    """
    if not isinstance(managers, Mapping):
        raise TraceError(f"compare(trace, {managers!r}): give a mapping, such as {{'mine': Mine}}")
    found = []
    for name, manager in managers.items():
        run = replay(trace, manager, hints=hints)
        least = minimum_capacity(trace, manager, hints=hints, resolution=resolution)
        found.append(Comparison(name, run, least))
        done(name)
    return found


def minimum_capacity(
    trace: Trace, manager: AnyManager, *, hints: bool = True, resolution: float = RESOLUTION
) -> int | None:
    """The least capacity of a device, in bytes, on which ``manager`` serves all of ``trace``.

    A manager that is refused releases what it caches and asks once more, as in a program. The
    search halves an interval until it is shorter than ``resolution`` times the peak of live bytes;
    the result is its upper end, at which the trace ran. None where 16 times the peak of live bytes
    are not enough. A manager may run at one capacity and fail at a larger one; then the result is
    one of several thresholds. Raises TraceError for a resolution below 0.
    """
    if not 0 <= resolution < math.inf:
        raise TraceError(f"[minimum_capacity] resolution={resolution}: expected a number >= 0")
    unbounded = replay(trace, manager, hints=hints)
    if unbounded.out_of_memory is not None:
        return None
    live = unbounded.peak_live_bytes

    def runs(capacity: int) -> bool:
        memory = AddressMemory(capacity, device=trace.device)
        try:
            return replay(trace, manager, memory, hints=hints).out_of_memory is None
        except OutOfMemoryError:  # the manager takes memory when it is made
            return False

    low = live - 1  # too little for every manager
    high = max(live, unbounded.peak_reserved_bytes)
    while not runs(high):  # its policy depends on the capacity
        if high >= MOST * live:
            return None
        low, high = high, max(2 * high, MIN_CAPACITY)
    while high - low > max(int(resolution * live), 1):
        middle = (low + high) // 2
        low, high = (low, middle) if runs(middle) else (middle, high)
    return high
