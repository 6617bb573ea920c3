"""Parts of reports in HTML: one file that needs nothing else, no network and no script."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import fl_tensor as ft
from fl_vision.transforms import picture_of

#: Pixels that the shorter side of a picture has at least, and its longer side at most.
_SHORT, _LONG = 56, 256
_COLOURS = ("#1f6fb4", "#d2691e", "#2e8b57")
_STYLE = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .6em 0 }
td, th { padding: .15em .6em; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
figure { display: inline-block; vertical-align: top; margin: 4px; text-align: center;
  font-size: 12px }
figcaption { max-width: 12em; margin: auto; overflow-wrap: break-word }
figure img { display: block; margin: auto; border: 2px solid #ddd }
figure.wrong img { border-color: #c22 }
svg { border: 1px solid #ddd; margin-right: 1em }
table.matrix th { max-width: 7em; overflow-wrap: break-word; vertical-align: bottom }
td.cell { border: 1px solid #eee; text-align: center }
td.dark { color: #fff }
"""


def page(title: str, parts: Iterable[str]) -> bytes:
    """A page with a title, which is escaped, and parts, which are HTML already."""
    html = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
    return html.encode("utf-8", "backslashreplace")


def values_of(history: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    """Epoch and figure of the records that have it as a finite number."""
    return [
        (float(record["epoch"]), float(record[key]))
        for record in history
        if key in record and math.isfinite(record[key])
    ]


def curve(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """An SVG with a line for each series, ticks at the ends of both axes."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    wide, high, edge = 440, 240, 56
    (left, right), (low, top) = (_ends([p[axis] for p in points]) for axis in (0, 1))

    def place(x: float, y: float) -> str:
        across = edge + (x - left) / (right - left) * (wide - 2 * edge)
        down = high - edge - (y - low) / (top - low) * (high - 2 * edge)
        return f"{across:.1f},{down:.1f}"

    drawn = [f'<text x="{edge}" y="18">{escape(title)}</text>']
    drawn.append(
        f'<path d="M{place(left, top)} L{place(left, low)} L{place(right, low)}" fill="none"'
        ' stroke="#888"/>'
    )
    for x, y, text in (
        (2, high - edge, f"{low:.3g}"),
        (2, edge + 4, f"{top:.3g}"),
        (edge, high - edge + 16, f"{left:g}"),
        (wide - edge - 8, high - edge + 16, f"{right:g}"),
        (wide // 2 - 20, high - 8, "epoch"),
    ):
        drawn.append(f'<text x="{x}" y="{y}" font-size="11">{escape(text)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(place(*point) for point in line)
        if len(line) == 1:  # a line of one point is not seen
            across, _, down = path.partition(",")
            drawn.append(f'<circle cx="{across}" cy="{down}" r="3" fill="{colour}"/>')
        drawn.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{wide - 110}" y="{18 + 15 * number}" fill="{colour}">{escape(name)}</text>'
        )
    return f'<svg width="{wide}" height="{high}" font-size="13">{"".join(drawn)}</svg>'


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def inline_picture(image: ft.Tensor, peak: int = 255) -> str:
    """A picture as an `img` that holds its pixels, enlarged where it is small."""
    levels = image if peak == 255 else (image.astype(ft.float32) * (255 / peak)).astype(ft.uint8)
    picture = picture_of(levels if levels.shape[0] in (1, 3) else levels[:1])
    scale = max(1, -(-_SHORT // min(picture.size)))
    if max(picture.size) * scale <= _LONG:
        picture = picture.resize((picture.width * scale, picture.height * scale), 0)
    else:
        picture.thumbnail((_LONG, _LONG))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    content = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="" src="data:image/png;base64,{content}">'


def figure(pictures: str, words: str, *, wrong: bool = False) -> str:
    """Pictures with words below, in a red frame if `wrong`."""
    mark = ' class="wrong"' if wrong else ""
    return f"<figure{mark}>{pictures}<figcaption>{escape(words)}</figcaption></figure>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; cells are escaped."""

    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    top = line(head, "th") if any(head) else ""
    return f"<table>{top}{''.join(line(row, 'td') for row in rows)}</table>"
