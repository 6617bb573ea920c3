"""The report of a classifier in HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape

import fl_tensor as ft
from fl_nn import ConfusionMeter
from fl_tensor.files import replacing
from fl_vision.classifier import Classified
from fl_vision.datasets import ImageData
from fl_vision.datasets.image_data import image_and_label
from fl_vision.html_parts import curve, figure, inline_picture, page, table, values_of
from fl_vision.recipe import Recipe
from fl_vision.training import Trained

REPORT = "report.html"
#: Pictures of predictions, and of mistakes.
_MOST = 40
#: With more classes than this, the confusion matrix is left out.
_MATRIX = 40


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
    parts += ["<h2>Settings</h2>", table(("setting", "value"), recipe.values().items())]
    with replacing(path) as file:
        file.write(page(data.name, parts))


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
    return table(("", ""), rows)


def _curves(trained: Trained) -> list[str]:
    """Loss and accuracy over the epochs."""
    sides = {"train": "training", "valid": trained.measured_on}
    return [
        curve(words, {sides[s]: values_of(trained.history, f"{s}_{key}") for s in sides})
        for key, words in (("loss", "cross entropy"), ("accuracy", "accuracy, %"))
    ]


def _classes(meter: ConfusionMeter, classes: Sequence[str]) -> str:
    rows = [
        (name, *(f"{x:.4f}" for x in each[:3]), str(each.support))
        for name, each in zip(classes, meter.per_class, strict=True)
    ]
    return table(("class", "precision", "recall", "F1", "images"), rows)


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
        cells = "".join(_cell(count, count / total) for count in row)
        rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name in classes)
    return [
        "<h2>Confusion matrix</h2><p>Rows are true classes, columns are predictions.</p>",
        f'<table class="matrix"><tr><th></th>{head}</tr>{"".join(rows)}</table>',
    ]


def _cell(count: int, share: float) -> str:
    kind = "cell dark" if share > 0.6 else "cell"
    return f'<td class="{kind}" style="background: rgba(31,111,180,{share:.2f})">{count or ""}</td>'


def _pictures(data: ImageData, found: Classified, numbers: Iterable[int]) -> list[str]:
    drawn = []
    for number in numbers:
        guess, true = found.predicted[number], found.truth[number]
        words = f"{data.classes[guess]} {100 * found.probability[number]:.0f} %"
        if guess != true:
            words += f", is {data.classes[true]}"
        picture = inline_picture(image_and_label(data.test[number])[0], data.peak)
        drawn.append(figure(picture, words, wrong=guess != true))
    return drawn
