"""Which modules hold the memory at the peak, and how much of it they did not ask for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fl_memory.errors import TraceError
from fl_memory.plot import figures
from fl_memory.traces.timeline import Timeline
from fl_memory.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Modules with a bar of their own.
MOST = 20


def waste(
    trace: Trace,
    state: Timeline,
    *,
    by: str = "module",
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """Bytes requested and bytes wasted (granted, not requested) of the blocks at the peak.

    by: "module", "operation", "phase" or "tag". The 20 largest have bars, all others one together.
    Raises TraceError for another ``by``, and for a suffix of ``path`` that names no format.
    """
    if by not in ("module", "operation", "phase", "tag"):
        raise TraceError(f"[plot.waste] by {by!r}: expected module, operation, phase or tag")
    requested: Counter[str] = Counter()
    wasted: Counter[str] = Counter()
    blocks = state.blocks_at(state.peak)
    total: Counter[str] = Counter()
    for block in blocks:
        total[getattr(block, by)] += block.capacity
    shown = {name for name, _ in total.most_common(MOST)}
    for block in blocks:
        name = getattr(block, by)
        name = (name or "(none)") if name in shown else "(others)"
        requested[name] += block.nbytes
        wasted[name] += block.capacity - block.nbytes
    names = sorted(requested, key=lambda name: requested[name] + wasted[name])
    figure = figures.new(8, 1.5 + 0.25 * max(len(names), 4), title)
    axes = figure.add_subplot()
    useful = [requested[name] / figures.MIB for name in names]
    lost = [wasted[name] / figures.MIB for name in names]
    axes.barh(names, useful, label="requested")
    axes.barh(names, lost, left=useful, label="wasted")
    axes.set_xlabel(f"MiB at the peak; {sum(lost):.2f} MiB of {sum(useful) + sum(lost):.1f} wasted")
    figure.legend(loc="outside right upper")
    return figures.finished(figure, path)
