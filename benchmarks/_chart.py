"""Ratios as bars, in a PNG: a group for each row, a bar for each column, a line where both sides
are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#aa3377")
BAR, GAP, HEIGHT, MARGIN = 34, 36, 320, 60


def bar_chart(
    path: Path, title: str, subtitle: str, groups: Mapping[str, Mapping[str, float]]
) -> None:
    """Draw ``groups``, name -> bar -> ratio, into the PNG ``path``."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    top = max(1.25, 1.1 * max(value for bars in groups.values() for value in bars.values()))
    widths = [BAR * len(bars) + GAP for bars in groups.values()]
    width = max(sum(widths) + 2 * MARGIN, 720)
    base = 110 + HEIGHT
    image = Image.new("RGB", (width, base + 90), "white")
    draw = ImageDraw.Draw(image)
    font, small = ImageFont.load_default(20), ImageFont.load_default(13)
    draw.text((MARGIN, 16), title, "black", font)
    draw.text((MARGIN, 46), subtitle, "#555555", small)
    for tick in _ticks(top):
        y = base - HEIGHT * tick / top
        equal = tick == 1.0
        draw.line(
            (MARGIN, y, width - MARGIN, y), "black" if equal else "#dddddd", 2 if equal else 1
        )
        draw.text((MARGIN - 8, y), f"{tick:g}", "black", small, anchor="rm")
    x = MARGIN + GAP / 2
    for (group, bars), span in zip(groups.items(), widths, strict=True):
        draw.text((x + (span - GAP) / 2, base + 18), group, "black", small, anchor="mm")
        for name, value in bars.items():
            y = base - HEIGHT * value / top
            draw.rectangle((x + 2, y, x + BAR - 2, base), COLOURS[names.index(name) % len(COLOURS)])
            draw.text((x + BAR / 2, y - 9), f"{value:.2f}", "black", small, anchor="mm")
            x += BAR
        x += GAP
    _legend(draw, small, names, base + 52)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def _ticks(top: float) -> list[float]:
    step = 0.25 if top < 2.5 else 1.0
    return [step * i for i in range(int(top / step) + 1)]


def _legend(
    draw: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    names: Sequence[str],
    y: int,
) -> None:
    x = float(MARGIN)
    for number, name in enumerate(names):
        draw.rectangle((x, y, x + 14, y + 14), COLOURS[number % len(COLOURS)])
        draw.text((x + 20, y + 7), name, "black", font, anchor="lm")
        x += 44 + draw.textlength(name, font)
