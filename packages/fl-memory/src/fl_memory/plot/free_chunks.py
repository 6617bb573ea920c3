"""The sizes of free chunks, as a histogram."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fl_memory.plot import figures
from fl_memory.traces.timeline import Timeline
from fl_memory.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def free_chunks(
    trace: Trace,
    state: Timeline,
    *,
    row: int | None = None,
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """How many free chunks there are of each power of two, and their bytes.

    A free chunk is a gap between blocks in a range that the device gave. row: after which event; by
    default that of the peak of used bytes. Raises TraceError for a suffix of ``path`` that names no
    format.
    """
    figure = figures.new(7, 5, title)
    chunks = state.free_chunks(state.peak if row is None else row)
    numbers = Counter(chunk.bit_length() - 1 for chunk in chunks)
    sizes: Counter[int] = Counter()
    for chunk in chunks:
        sizes[chunk.bit_length() - 1] += chunk
    orders = range(min(numbers, default=0), max(numbers, default=0) + 1)
    above, below = figure.subplots(2, 1, sharex=True)
    above.bar(orders, [numbers[order] for order in orders], width=0.9)
    above.set_ylabel("free chunks")
    below.bar(orders, [sizes[order] / figures.MIB for order in orders], width=0.9)
    below.set_ylabel("MiB in them")
    below.set_xticks(orders, [_power(order) for order in orders], rotation=45)
    below.set_xlabel(f"size of at least; {len(chunks)} chunks, {sum(chunks) / figures.MIB:.1f} MiB")
    return figures.finished(figure, path)


def _power(order: int) -> str:
    """2 ** order bytes in words: "64 KiB"."""
    unit = min(order // 10, 3)
    return f"{1 << (order - 10 * unit)} {('B', 'KiB', 'MiB', 'GiB')[unit]}"
