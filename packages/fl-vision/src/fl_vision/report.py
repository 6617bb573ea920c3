"""The pictures of a run: learning curves and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fl_vision.classifier import Classified
from fl_vision.datasets import ImageData
from fl_vision.datasets.image_data import image_and_label
from fl_vision.draw import Panel, Prediction, Section, Series, draw_curves, draw_grid
from fl_vision.images import to_picture

CURVES, GRID = "learning_curve.png", "predictions.png"
_MISTAKES, _SAMPLES = 20, 40


def draw_history(
    path: str | Path, title: str, history: Sequence[dict[str, Any]], measured_on: str = "test"
) -> Path:
    """Loss and accuracy over the epochs of `Trainer.history`, in training and as measured after
    each, on samples of that name."""

    def curves(figure: str, scale: float, form: str) -> list[Series]:
        found = []
        for part, name in (("train", "training"), ("valid", measured_on)):
            values = [float(record[f"{part}_{figure}"]) * scale for record in history]
            last = f" {format(values[-1], form)}" if values else ""
            found.append(Series(name + last, values))
        return found

    panels = [
        Panel("cross entropy", curves("loss", 1.0, ".3g"), log=True),
        Panel("accuracy", curves("accuracy", 0.01, ".2%"), percent=True),
    ]
    return draw_curves(path, title, panels)


def draw_predictions(path: str | Path, data: ImageData, found: Classified) -> Path:
    """The first mistakes on the test set, and the first test images."""
    total, wrong = len(found.truth), found.mistakes

    def show(index: int) -> Prediction:
        return Prediction(
            to_picture(image_and_label(data.test[index])[0], data.peak),
            data.classes[found.predicted[index]],
            found.probability[index],
            data.classes[found.truth[index]],
        )

    shown = wrong[:_MISTAKES]
    heading = f"{len(wrong)} of {total} test images are misclassified"
    if len(shown) < len(wrong):
        heading += f"; the first {len(shown)}"
    sections = [
        Section(heading, [show(index) for index in shown]),
        Section("the first test images", [show(i) for i in range(min(total, _SAMPLES))]),
    ]
    title = f"{data.name}  ·  test accuracy {found.accuracy:.4f}"
    return draw_grid(path, title, sections)
