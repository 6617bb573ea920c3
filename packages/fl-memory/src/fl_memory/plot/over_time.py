"""Bytes live, used and reserved over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.plot import figures
from fl_memory.traces.timeline import Timeline
from fl_memory.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def over_time(
    trace: Trace, state: Timeline, *, title: str | None = None, path: figures.AnyPath | None = None
) -> Figure:
    """Bytes requested (live), granted (used) and taken from the device (reserved) after each event.

    Raises TraceError for a suffix of ``path`` that names no format.
    """
    figure = figures.new(8, 4, title)
    axes = figure.add_subplot()
    rows = range(len(state.live))
    for name in ("reserved", "used", "live"):
        sizes = [size / figures.MIB for size in getattr(state, name)]
        axes.step(rows, sizes, where="post", label=name, linewidth=1)
    axes.set_ylabel("MiB")
    axes.set_ylim(bottom=0)
    figures.draw_steps(axes, trace)
    figure.legend(loc="outside right upper")
    return figures.finished(figure, path)
