"""Which block lies where, and when: addresses over time."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from fl_memory.errors import TraceError
from fl_memory.plot import figures
from fl_memory.traces.timeline import Range, Timeline
from fl_memory.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def block_map(
    trace: Trace,
    state: Timeline,
    *,
    by: str = "tag",
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """A rectangle for each block: its bytes upwards, its lifetime to the right.

    What the device gave is grey: grey that shows is free. Gaps between the device's ranges are left
    out. by: what colours mean, "tag" or "phase". Raises TraceError for another ``by``, and for a
    suffix of ``path`` that names no format.
    """
    if by not in ("tag", "phase"):
        raise TraceError(f"[plot.block_map] by {by!r}: expected tag or phase")
    figure = figures.new(9, 6, title)
    from matplotlib.collections import PolyCollection

    axes = figure.add_subplot()
    places = _Places(state.segments)
    grey = [places.corners(segment) for segment in state.segments]
    axes.add_collection(PolyCollection(grey, facecolors="0.88", edgecolors="0.6", linewidths=0.4))
    for place, name in enumerate(sorted({getattr(block, by) for block in state.blocks})):
        corners = [places.corners(block) for block in state.blocks if getattr(block, by) == name]
        color, label = f"C{place}", name or f"no {by}"
        axes.add_collection(
            PolyCollection(corners, facecolors=color, edgecolors="k", linewidths=0.15, label=label)
        )
    axes.set_xlim(0, max(len(trace), 1))
    axes.set_ylim(0, max(places.total / figures.MIB, 1e-6))
    axes.set_ylabel("MiB of the device")
    figures.draw_steps(axes, trace)
    if state.blocks:
        figure.legend(loc="outside right upper")
    return figures.finished(figure, path)


class _Places:
    """Heights of addresses when the device's ranges lie one upon the other."""

    def __init__(self, segments: list[Range]) -> None:
        sizes: dict[int, int] = {}
        for segment in segments:
            sizes[segment.address] = max(sizes.get(segment.address, 0), segment.capacity)
        self._starts = sorted(sizes)
        self._heights = []
        self.total = 0
        for start in self._starts:
            self._heights.append(self.total)
            self.total += sizes[start]

    def corners(self, shown: Range) -> list[tuple[float, float]]:
        place = bisect_right(self._starts, shown.address) - 1
        low = self._heights[place] + shown.address - self._starts[place]
        bottom, top = low / figures.MIB, (low + shown.capacity) / figures.MIB
        return [(shown.begin, bottom), (shown.end, bottom), (shown.end, top), (shown.begin, top)]
