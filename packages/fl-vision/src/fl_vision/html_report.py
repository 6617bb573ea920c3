"""The report of a run: one HTML file that needs nothing else, no network and no script."""

from __future__ import annotations

import base64
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import fl_tensor as ft
from fl_nn import ConfusionMeter
from fl_tensor.files import replacing
from fl_vision.classifier import Classified
from fl_vision.datasets import ImageData
from fl_vision.datasets.image_data import image_and_label
from fl_vision.recipe import Recipe
from fl_vision.training import Trained
from fl_vision.transforms import picture_of

REPORT = "report.html"
#: Pictures of predictions, and of mistakes.
_MOST = 40
#: With more classes than this, the confusion matrix is left out.
_MATRIX = 40
#: Pixels that the shorter side of a picture has at least, and its longer side at most.
_SHORT, _LONG = 56, 256
_COLOURS = ("#1f6fb4", "#d2691e")
_STYLE = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .6em 0 }
td, th { padding: .15em .6em; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
figure { display: inline-block; margin: 4px; text-align: center; font-size: 12px }
figure img { display: block; margin: auto; border: 2px solid #ddd }
figure.wrong img { border-color: #c22 }
svg { border: 1px solid #ddd; margin-right: 1em }
td.cell { border: 1px solid #eee; text-align: center }
"""


def write_report(
    path: str | os.PathLike[str],
    data: ImageData,
    found: Classified,
    trained: Trained,
    recipe: Recipe,
) -> None:
    """Write curves, figures of each class, confusion matrix, predictions, mistakes and settings.

    `found` is what the classifier says of `data.test`. Names of classes and settings are escaped.
    """
    meter = ConfusionMeter(len(data.classes))
    meter.add(ft.asarray(found.predicted, ft.int64), ft.asarray(found.truth, ft.int64))
    parts = [
        f"<h1>{escape(data.name)}: {escape(recipe.network)}</h1>",
        _summary(data, found, trained),
        "<h2>Learning curves</h2>",
        *_curves(trained),
        "<h2>Classes</h2>",
        _classes(meter, data.classes),
        *_matrix(meter, data.classes),
        "<h2>Predictions</h2>",
        *_pictures(data, found, range(len(found.truth))[:_MOST]),
    ]
    if found.mistakes:
        parts += ["<h2>Mistakes</h2>", *_pictures(data, found, found.mistakes[:_MOST])]
    parts += ["<h2>Settings</h2>", _table(("setting", "value"), recipe.values().items())]
    html = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(data.name)}'
        f"</title><style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
    with replacing(path) as file:
        file.write(html.encode("utf-8", "backslashreplace"))


def _summary(data: ImageData, found: Classified, trained: Trained) -> str:
    seconds = sum(float(record["seconds"]) for record in trained.history)
    rows = [
        ("test accuracy", f"{found.accuracy:.4f}"),
        ("test images", f"{len(found.truth)}, {len(found.mistakes)} of them wrong"),
        ("training images", str(len(data.train))),
        ("classes", str(len(data.classes))),
        ("image (channels, height, width)", str(data.image_shape)),
        ("weights of", trained.weights),
        ("epochs", f"{len(trained.history)} in {seconds:.1f} s"),
    ]
    if data.skipped:
        rows.append(("files left out", "; ".join(data.skipped[:20])))
    return _table(("", ""), rows)


def _curves(trained: Trained) -> list[str]:
    """Loss and accuracy over the epochs."""
    sides = {"train": "training", "valid": trained.measured_on}
    return [
        _curve(words, {sides[s]: _values(trained.history, f"{s}_{key}") for s in sides})
        for key, words in (("loss", "cross entropy"), ("accuracy", "accuracy, %"))
    ]


def _values(history: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    return [
        (float(record["epoch"]), float(record[key]))
        for record in history
        if key in record and math.isfinite(record[key])
    ]


def _curve(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """An SVG with a line for each series, ticks at the ends of both axes."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    wide, high, edge = 440, 240, 44
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
        (2, high - edge, f"{low:.4g}"),
        (2, edge + 4, f"{top:.4g}"),
        (edge, high - edge + 16, f"{left:g}"),
        (wide - edge - 8, high - edge + 16, f"{right:g}"),
        (wide // 2 - 20, high - 8, "epoch"),
    ):
        drawn.append(f'<text x="{x}" y="{y}" font-size="11">{escape(text)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(place(*point) for point in line)
        drawn.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{wide - 110}" y="{18 + 15 * number}" fill="{colour}">{escape(name)}</text>'
        )
    return f'<svg width="{wide}" height="{high}" font-size="13">{"".join(drawn)}</svg>'


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _classes(meter: ConfusionMeter, classes: Sequence[str]) -> str:
    rows = [
        (name, *(f"{x:.4f}" for x in each[:3]), str(each.support))
        for name, each in zip(classes, meter.per_class, strict=True)
    ]
    return _table(("class", "precision", "recall", "F1", "images"), rows)


def _matrix(meter: ConfusionMeter, classes: Sequence[str]) -> list[str]:
    """The confusion matrix, darker where a larger share of a row is."""
    if len(classes) > _MATRIX:
        return []
    counts = [[0] * len(classes) for _ in classes]
    state = meter.state()
    for pair, count in zip(state["pairs"], state["counts"], strict=True):
        counts[pair // len(classes)][pair % len(classes)] = count
    rows = []
    for name, row in zip(classes, counts, strict=True):
        total = max(1, sum(row))
        cells = "".join(
            f'<td class="cell" style="background: rgba(31,111,180,{n / total:.2f})">{n or ""}</td>'
            for n in row
        )
        rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name in classes)
    return [
        "<h2>Confusion matrix</h2><p>Rows are true classes, columns are predictions.</p>",
        f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>",
    ]


def _pictures(data: ImageData, found: Classified, numbers: Iterable[int]) -> list[str]:
    drawn = []
    for number in numbers:
        guess, true = found.predicted[number], found.truth[number]
        words = f"{data.classes[guess]} {100 * found.probability[number]:.0f} %"
        mark = ""
        if guess != true:
            mark, words = ' class="wrong"', f"{words}, is {data.classes[true]}"
        source = _inline(image_and_label(data.test[number])[0], data.peak)
        drawn.append(
            f'<figure{mark}><img alt="" src="{source}"><figcaption>{escape(words)}</figcaption>'
            "</figure>"
        )
    return drawn


def _inline(image: ft.Tensor, peak: int) -> str:
    """A picture as an address that holds it."""
    levels = image if peak == 255 else (image.astype(ft.float32) * (255 / peak)).astype(ft.uint8)
    picture = picture_of(levels if levels.shape[0] in (1, 3) else levels[:1])
    scale = max(1, -(-_SHORT // min(picture.size)))
    if max(picture.size) * scale <= _LONG:
        picture = picture.resize((picture.width * scale, picture.height * scale), 0)
    else:
        picture.thumbnail((_LONG, _LONG))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    top = line(head, "th") if any(head) else ""
    return f"<table>{top}{''.join(line(row, 'td') for row in rows)}</table>"
