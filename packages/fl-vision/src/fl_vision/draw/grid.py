"""A grid of images with predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from fl_vision.draw.canvas import FAINT, GREEN, GRID, INK, RED, Canvas

_COLUMNS = 10
_SIDE, _GAP, _CAPTION = 72, 14, 36
_MARGIN = 24


@dataclass(frozen=True)
class Prediction:
    """An image, the class it was given with what probability, and its true class if known."""

    picture: Image.Image
    predicted: str
    probability: float
    truth: str | None = None

    @property
    def correct(self) -> bool:
        return self.truth is None or self.predicted == self.truth


@dataclass(frozen=True)
class Section:
    """A heading and the predictions under it."""

    heading: str
    predictions: Sequence[Prediction]


def draw_grid(path: str | Path, title: str, sections: Sequence[Section]) -> Path:
    """Write the sections below one another as a PNG; sections without predictions are left out."""
    shown = [section for section in sections if section.predictions]
    rows = [-(-len(section.predictions) // _COLUMNS) for section in shown]
    width = 2 * _MARGIN + _COLUMNS * (_SIDE + _GAP) - _GAP
    height = 62 + sum(34 + count * (_SIDE + _CAPTION + _GAP) for count in rows) + 8
    canvas = Canvas(width, height)
    canvas.text((_MARGIN, 16), title, size=17, weight=0.8)
    y = 56
    for section, count in zip(shown, rows, strict=True):
        canvas.text((_MARGIN, y), section.heading, size=14, colour=INK)
        y += 28
        for index, prediction in enumerate(section.predictions):
            row, column = divmod(index, _COLUMNS)
            corner = (
                _MARGIN + column * (_SIDE + _GAP),
                y + row * (_SIDE + _CAPTION + _GAP),
            )
            _cell(canvas, corner, prediction)
        y += count * (_SIDE + _CAPTION + _GAP) + 6
    return canvas.save(path)


def _cell(canvas: Canvas, corner: tuple[int, int], prediction: Prediction) -> None:
    x, y = corner
    canvas.picture(corner, prediction.picture, _SIDE)
    colour = GREEN if prediction.correct else RED
    outline = GRID if prediction.correct else RED
    canvas.box(
        (x - 1, y - 1), _SIDE + 2, _SIDE + 2, outline=outline, line=1 if prediction.correct else 2
    )
    middle = x + _SIDE / 2
    name = _fit(canvas, prediction.predicted, 14)
    canvas.text((middle, y + _SIDE + 4), name, size=14, colour=colour, anchor="ma", weight=0.6)
    note = f"{100 * prediction.probability:.0f} %"
    if not prediction.correct and prediction.truth is not None:
        note = _fit(canvas, f"{note} · is {prediction.truth}", 11)
    canvas.text((middle, y + _SIDE + 22), note, size=11, colour=FAINT, anchor="ma")


def _fit(canvas: Canvas, string: str, size: int) -> str:
    """`string`, shortened until it is not wider than a cell."""
    if canvas.text_width(string, size) <= _SIDE + _GAP - 4:
        return string
    while len(string) > 1 and canvas.text_width(string + "…", size) > _SIDE + _GAP - 4:
        string = string[:-1]
    return string + "…"
