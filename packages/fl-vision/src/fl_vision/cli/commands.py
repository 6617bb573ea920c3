"""The commands `fl-vision eval` and `fl-vision predict`, and helpers of all three commands."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_vision.classifier import Classifier, load_classifier
from fl_vision.datasets import DataOptions, ImageData, load_dataset
from fl_vision.errors import UsageError
from fl_vision.images import read_image
from fl_vision.report import draw_predictions

DATA_OPTIONS = ("dataset", "data_dir", "holdout", "image_size", "grayscale", "split_seed")
_BATCH = 64


def data_settings(
    arguments: argparse.Namespace, stored: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The data options as plain values: what was given, else what `stored` says."""
    given = {name: getattr(arguments, name) for name in DATA_OPTIONS}
    if given["data_dir"] is not None:
        given["data_dir"] = str(given["data_dir"])
    if given["image_size"] is not None:
        given["image_size"] = list(given["image_size"])
    return {n: v if v is not None else (stored or {}).get(n) for n, v in given.items()}


def load_data(settings: Mapping[str, Any], download: bool) -> ImageData:
    """The data set that `data_settings` describe."""
    try:
        size = settings["image_size"]
        options = DataOptions(
            data_dir=None if settings["data_dir"] is None else Path(settings["data_dir"]),
            holdout=settings["holdout"],
            image_size=None if size is None else (int(size[0]), int(size[1])),
            grayscale=bool(settings["grayscale"]),
            split_seed=int(settings["split_seed"] or 0),
            download=download,
        )
    except (TypeError, ValueError, IndexError) as error:
        raise UsageError(
            f"[dataset] the checkpoint has malformed data options ({error}); "
            "give --dataset and its options"
        ) from error
    return load_dataset(str(settings["dataset"]), options)


def evaluate(arguments: argparse.Namespace) -> None:
    """`fl-vision eval`: the test accuracy of a checkpoint, as `train` prints it."""
    classifier, notes = load_classifier(arguments.checkpoint)
    noted = notes.get("data")
    stored = noted if isinstance(noted, Mapping) else {}
    # The options of one data set mean nothing for another.
    other = arguments.dataset not in (None, stored.get("dataset"))
    settings = data_settings(arguments, None if other else stored)
    if settings["dataset"] is None:
        raise UsageError("[eval] the checkpoint does not name its data set; give --dataset")
    data = load_data(settings, not arguments.no_download)
    if data.classes != classifier.classes or data.image_shape != classifier.image_shape:
        raise UsageError(
            f"[eval] {data.name} has {len(data.classes)} classes of images {data.image_shape}, the "
            f"checkpoint was trained on {len(classifier.classes)} of {classifier.image_shape}; "
            "give the data set that it was trained on"
        )
    found = classifier.classify(data.test, arguments.batch_size)
    print(weights_line(str(notes["weights"])))
    print(accuracy_line(found.accuracy))


def predict(arguments: argparse.Namespace) -> None:
    """`fl-vision predict`: one line per image file, best class first."""
    classifier, _ = load_classifier(arguments.checkpoint)
    drawn: list[tuple[ft.Tensor, str, float]] = []
    for start in range(0, len(arguments.images), _BATCH):
        paths = arguments.images[start : start + _BATCH]
        pixels = [_pixels(path, classifier, arguments.invert) for path in paths]
        # Files have levels 0 to 255, the training set had 0 to `peak`.
        batch = ft.stack(pixels).astype(classifier.normalise.dtype) * (classifier.peak / 255)
        probabilities = ft.exp(classifier.log_probabilities(batch)).tolist()
        for path, image, row in zip(paths, pixels, probabilities, strict=True):
            ranked = sorted(range(len(row)), key=lambda k: -row[k])[: arguments.top]
            best = ", ".join(f"{classifier.classes[k]} ({row[k]:.4f})" for k in ranked)
            print(f"{path}: {best}")
            if arguments.out is not None:
                drawn.append((image, classifier.classes[ranked[0]], row[ranked[0]]))
    if arguments.out is not None:
        draw_predictions(arguments.out, drawn)


def weights_line(weights: str) -> str:
    """The line before it: what the accuracy is of."""
    return f"weights of {weights}"


def accuracy_line(accuracy: float) -> str:
    """The last line of `train` and `eval`."""
    return f"test accuracy {accuracy:.4f}"


def _pixels(path: Path, classifier: Classifier, invert: bool) -> ft.Tensor:
    channels, height, width = classifier.image_shape
    pixels = read_image(path, size=(height, width), grayscale=channels == 1)
    return ft.subtract(ft.full_like(pixels, 255), pixels) if invert else pixels
