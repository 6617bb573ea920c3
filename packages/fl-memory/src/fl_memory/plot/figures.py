"""Helpers of all plots: an empty figure, steps, units, a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fl_memory.errors import MissingError, TraceError
from fl_memory.traces.file import AnyPath, replacing
from fl_memory.traces.trace import MARK, Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIB = 1 << 20
#: More steps than these are not drawn, because their lines would cover the plot.
MOST_STEPS = 50
#: Dots per inch of pixel formats.
_DPI = 150


def new(width: float, height: float, title: str | None) -> Figure:
    """An empty figure of ``width`` x ``height`` inches. Raises MissingError without matplotlib."""
    try:
        from fl_memory.plot.notebook_figure import NotebookFigure
    except ImportError as error:
        raise MissingError(
            "[plot] needs matplotlib: python -m pip install 'fl-memory[plot]', or from a clone "
            "python -m pip install './packages/fl-memory[plot]'"
        ) from error
    made = NotebookFigure(figsize=(width, height), layout="constrained")
    if title:
        made.suptitle(title)
    return made


def finished(figure: Figure, path: AnyPath | None) -> Figure:
    """``figure``, written to ``path`` if given, all of it or nothing. Raises TraceError for a
    suffix that names no format, OSError where the file cannot be written."""
    if path is not None:
        suffix = os.path.splitext(os.fspath(path))[1][1:].lower()
        known = figure.canvas.get_supported_filetypes()
        if suffix not in known:
            raise TraceError(
                f"[plot] path {os.fspath(path)!r}: expected a file name that ends in one of "
                f"{', '.join(sorted(known))}"
            )
        with replacing(path) as file:
            figure.savefig(file, format=suffix, dpi=_DPI)
    return figure


def draw_steps(axes: Any, trace: Trace) -> None:
    """A vertical line at each mark "step", and the label of the horizontal axis."""
    axes.set_xlabel("events")
    tags = trace.tables["tag"]
    rows = [
        row
        for row, (kind, tag) in enumerate(trace.rows("kind", "tag"))
        if kind == MARK and tags[tag] == "step"
    ]
    if len(rows) <= MOST_STEPS:
        for row in rows:
            axes.axvline(row, color="0.7", linewidth=0.8, zorder=0)
        if rows:
            axes.set_xlabel("events; vertical lines: steps")
