"""The pictures of a run: learning curves and predictions (``fl_nn.plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

import fl_tensor as ft
from fl_nn import plot
from fl_vision.classifier import Classified
from fl_vision.datasets import ImageData
from fl_vision.datasets.image_data import image_and_label
from fl_vision.transforms import picture_of

CURVES, PREDICTIONS, MISTAKES = "learning_curve.png", "predictions.png", "mistakes.png"
#: Pictures in a grid.
_MOST = 40
#: Pixels of the longer side of a picture of attention, at least.
_LEAST = 224


def draw_run(
    out: Path,
    data: ImageData,
    found: Classified,
    history: Sequence[dict[str, Any]],
    measured_on: str,
    about: str,
) -> list[str]:
    """Draw loss and accuracy over the epochs of `history`, the first test images, and the first
    mistakes if there are any; the names of the files in `out`. `measured_on`: the samples that the
    figures `valid_...` belong to. Raises MissingError without matplotlib."""
    written = [CURVES, PREDICTIONS]
    plot.curves(
        history,
        metrics=["loss", "accuracy"],
        log=["loss"],
        labels={
            "loss": "cross entropy",
            "accuracy": "accuracy, %",
            "train": "training",
            "valid": measured_on,
        },
        title=f"{data.name}, {about}",
        path=out / CURVES,
    )
    total, wrong = len(found.truth), found.mistakes
    title = f"{data.name}: {len(wrong)} of {total} test images are misclassified"
    _draw(out / PREDICTIONS, title, data, found, range(total)[:_MOST])
    if wrong:
        _draw(out / MISTAKES, title, data, found, wrong[:_MOST])
        written.append(MISTAKES)
    return written


def draw_predictions(path: Path, predictions: Sequence[tuple[ft.Tensor, str, float]]) -> None:
    """Images (C, H, W) uint8, each with the class that was predicted and its probability. Raises
    MissingError without matplotlib."""
    titles = [_title(name, probability) for _, name, probability in predictions]
    plot.images([image for image, _, _ in predictions], titles=titles, path=path)


def attention_picture(image: ft.Tensor, weights: ft.Tensor) -> Image.Image:
    """An image (C, H, W) uint8, and beside it the same image, lit where `weights` (rows, columns)
    are large."""
    picture = picture_of(image)
    scale = max(1, -(-_LEAST // max(picture.size)))
    picture = picture.resize((picture.width * scale, picture.height * scale), 0)
    most = float(ft.max(weights).item()) or 1.0
    levels = ft.round(weights * (255.0 / most)).astype(ft.uint8)
    light = picture_of(levels.reshape(1, *levels.shape)).resize(picture.size, 2)
    dark = picture.point(lambda level: level // 4)
    sheet = Image.new("RGB", (2 * picture.width, picture.height))
    sheet.paste(picture, (0, 0))
    sheet.paste(Image.composite(picture, dark, light), (picture.width, 0))
    return sheet


def _draw(
    path: Path, title: str, data: ImageData, found: Classified, numbers: Sequence[int]
) -> None:
    titles, marked = [], []
    for place, number in enumerate(numbers):
        guess, true = found.predicted[number], found.truth[number]
        said = _title(data.classes[guess], found.probability[number])
        if guess != true:
            marked.append(place)
            said += f"\nis {data.classes[true]}"
        titles.append(said)
    images = [image_and_label(data.test[number])[0] for number in numbers]
    plot.images(images, titles=titles, marked=marked, limits=(0, data.peak), title=title, path=path)


def _title(name: str, probability: float) -> str:
    return f"{name}  {100 * probability:.0f} %"
