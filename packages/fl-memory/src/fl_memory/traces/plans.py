"""The off-line plan of a trace: ``planned`` with all lifetimes known beforehand."""

from __future__ import annotations

from functools import partial

from fl_memory.managers.planned import Plan, PlannedManager, Request
from fl_memory.traces.replay import AnyManager
from fl_memory.traces.trace import ALLOC, FREE, Trace

__all__ = ["planned_off_line", "requests"]


def requests(trace: Trace) -> list[Request]:
    """The allocations of a trace, with row numbers as moments. ``end`` is None for blocks that
    live when the trace ends."""
    streams = [None, *trace.tables["stream"][1:]]
    found: list[Request] = []
    live: dict[int, int] = {}
    columns = ("kind", "block", "nbytes", "alignment", "stream")
    for row, (kind, block, nbytes, alignment, stream) in enumerate(trace.rows(*columns)):
        if kind == ALLOC:
            live[block] = len(found)
            found.append(Request(nbytes, alignment, streams[stream], row, None))
        elif kind == FREE:
            place = live.pop(block)
            found[place] = found[place]._replace(end=row)
    return found


def planned_off_line(trace: Trace) -> AnyManager:
    """``planned`` for a replay of this very trace: each request has its place from the first on.

    The figure to compare others with: what packing can do that knows the whole program.
    """
    return partial(PlannedManager, plan=Plan.of(requests(trace), until=len(trace)))
