"""Curves over epochs: one or more panels side by side, with axes, ticks and a legend each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_vision.draw.axes import label, log_ticks, ticks, whole_ticks
from fl_vision.draw.canvas import BLUE, FAINT, GRID, INK, ORANGE, Canvas

_COLOURS = (BLUE, ORANGE)
_PANEL, _HEIGHT = 470, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 22, 84, 56


@dataclass(frozen=True)
class Series:
    """A named curve: one value per epoch, beginning with epoch 1; non-finite values are gaps."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One diagram: what its vertical axis shows, and the curves in it.

    `percent` writes the shares 0 to 1 as percentages; `log` makes the axis logarithmic where all
    values are positive.
    """

    title: str
    series: Sequence[Series]
    percent: bool = False
    log: bool = False


def draw_curves(path: str | Path, title: str, panels: Sequence[Panel]) -> Path:
    """Write the panels side by side as a PNG."""
    canvas = Canvas(_PANEL * len(panels), _HEIGHT)
    canvas.text((24, 16), title, size=17, weight=0.8)
    for index, panel in enumerate(panels):
        _draw(canvas, _PANEL * index, panel)
    return canvas.save(path)


def _draw(canvas: Canvas, offset: int, panel: Panel) -> None:
    left, right = offset + _LEFT, offset + _PANEL - _RIGHT
    top, bottom = _TOP, _HEIGHT - _BOTTOM
    epochs = max((len(series.values) for series in panel.series), default=1)
    finite = [v for series in panel.series for v in series.values if math.isfinite(v)]
    bottom_value, top_value = min(finite, default=0.0), max(finite, default=1.0)
    log = panel.log and bottom_value > 0
    levels = (log_ticks if log else ticks)(bottom_value, top_value)
    low, high = levels[0], levels[-1]

    def height(value: float) -> float:
        """The share of the axis below `value`."""
        if log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def place(epoch: int, value: float) -> tuple[float, float]:
        across = 0.5 if epochs == 1 else (epoch - 1) / (epochs - 1)
        inset = 14.0
        x = left + inset + across * (right - left - 2 * inset)
        return x, bottom - (height(value) if math.isfinite(value) else value) * (bottom - top)

    canvas.text((left, top - 24), panel.title, size=14)
    for level in levels:
        y = place(1, level)[1]
        canvas.line([(left, y), (right, y)], GRID)
        written = label(level * 100, [t * 100 for t in levels]) if panel.percent else None
        text = f"{written} %" if written is not None else label(level, levels)
        canvas.text((left - 9, y), text, size=12, colour=FAINT, anchor="rm")
    for epoch in whole_ticks(1, epochs):
        x = place(epoch, low)[0]
        canvas.line([(x, bottom), (x, bottom + 5)], FAINT)
        canvas.text((x, bottom + 9), str(epoch), size=12, colour=FAINT, anchor="ma")
    canvas.line([(left, top), (left, bottom), (right, bottom)], FAINT, 1.2)
    canvas.text(((left + right) / 2, bottom + 28), "epoch", size=13, colour=INK, anchor="ma")
    for series, colour in zip(panel.series, _COLOURS, strict=False):
        _curve(canvas, [place(i + 1, v) for i, v in enumerate(series.values)], colour)
    _legend(canvas, right, top - 24, panel.series)


def _curve(canvas: Canvas, points: list[tuple[float, float]], colour: str) -> None:
    stretch: list[tuple[float, float]] = []
    for point in [*points, (0.0, math.nan)]:
        if math.isfinite(point[1]):
            stretch.append(point)
            continue
        if len(stretch) > 1:
            canvas.line(stretch, colour, 2.2)
        # Dots are for few epochs; many would hide the line.
        if len(points) <= 40 or len(stretch) == 1:
            for dot in stretch:
                canvas.dot(dot, 3.2, colour)
        stretch = []


def _legend(canvas: Canvas, right: float, top: float, series: Sequence[Series]) -> None:
    """One row that ends at the right edge, above the curves so that it hides none of them."""
    x = right
    for one, colour in reversed(list(zip(series, _COLOURS, strict=False))):
        x -= canvas.text_width(one.name, 12)
        canvas.text((x, top + 8), one.name, size=12, colour=INK, anchor="lm")
        canvas.line([(x - 28, top + 8), (x - 8, top + 8)], colour, 2.2)
        canvas.dot((x - 18, top + 8), 3.2, colour)
        x -= 28 + 18


__all__ = ["Panel", "Series", "draw_curves"]
