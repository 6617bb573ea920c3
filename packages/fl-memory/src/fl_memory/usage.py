"""``on_usage``: calls when the live bytes of a manager cross a share of a budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fl_memory.errors import AllocationError
from fl_memory.selection import current, manager_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fl_memory.events import Event
    from fl_memory.manager import MemoryManager

__all__ = ["on_usage"]


def on_usage(
    budget: int,
    callback: Callable[[float, int], object],
    *,
    fractions: Sequence[float] = (0.8, 0.95),
    manager: MemoryManager | str | None = None,
    device: str = "cpu",
) -> Callable[[], None]:
    """Call ``callback(fraction, live_bytes)`` when the live bytes reach ``fraction * budget``.

    It is called once for each fraction, and again only after the live bytes fell below it. One
    that is reached already is told at the next allocation. The callback runs in the thread that
    allocates, under the manager's lock, before the request returns.

    budget: bytes. manager: an object or a name; the current one by default. Returns a function that
    ends it. Raises AllocationError for a budget that is no positive int, fractions that are not
    above 0, and a callback that cannot be called.
    """
    if type(budget) is not int or budget < 1:
        raise AllocationError(f"on_usage({budget!r}): expected a budget in bytes, an int from 1")
    if not callable(callback):
        raise AllocationError(
            f"on_usage(callback={callback!r}): expected a function of the share and the live bytes"
        )
    if not fractions or not all(map(_is_fraction, fractions)):
        raise AllocationError(f"on_usage(fractions={fractions!r}): expected numbers above 0")
    levels = sorted(set(fractions))
    watched = current() if manager is None else manager_of(manager)
    live = watched.stats(device).live_bytes
    reached: set[float] = set()

    def observe(event: Event) -> None:
        nonlocal live
        if event.device != device or event.kind not in ("alloc", "free"):
            return
        live += event.nbytes if event.kind == "alloc" else -event.nbytes
        for fraction in levels:
            if live < fraction * budget:
                reached.discard(fraction)
            elif event.kind == "alloc" and fraction not in reached:
                reached.add(fraction)
                callback(fraction, live)

    return watched.on_event(observe)


def _is_fraction(given: object) -> bool:
    return isinstance(given, (int, float)) and math.isfinite(given) and given > 0
