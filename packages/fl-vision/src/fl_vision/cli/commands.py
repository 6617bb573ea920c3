"""The commands `fl-vision eval` and `fl-vision predict`, and helpers of all three commands."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import decoded_file_name
from fl_vision.classifier import Classifier, load_classifier
from fl_vision.datasets import DataOptions, ImageData, load_dataset
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.images import read_image
from fl_vision.report import draw_predictions

DATA_OPTIONS = (
    *("dataset", "data_dir", "holdout", "image_size", "grayscale", "split_seed"),
    "skip_bad",
)
_BATCH = 64
#: So many bad files are named.
_SHOWN = 20


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


def load_data(
    settings: Mapping[str, Any], download: bool, classes: tuple[str, ...] = ()
) -> ImageData:
    """The data set that `data_settings` describe; of these classes, all images are test images."""
    try:
        size = settings["image_size"]
        options = DataOptions(
            data_dir=None if settings["data_dir"] is None else _stored_path(settings["data_dir"]),
            holdout=settings["holdout"],
            image_size=None if size is None else (int(size[0]), int(size[1])),
            grayscale=bool(settings["grayscale"]),
            split_seed=int(settings["split_seed"] or 0),
            download=download,
            skip_bad=bool(settings.get("skip_bad")),
            classes=classes,
        )
    except (TypeError, ValueError, IndexError) as error:
        raise UsageError(
            f"[dataset] the checkpoint has malformed data options ({error}); "
            "give --dataset and its options"
        ) from error
    return load_dataset(str(settings["dataset"]), options)


def evaluate(arguments: argparse.Namespace) -> None:
    """`fl-vision eval`: the test accuracy of a checkpoint, as `train` prints it. Of another folder
    than that of the training all images count, or those of its `test/`."""
    classifier, notes = load_classifier(arguments.checkpoint)
    noted = notes.get("data")
    stored = noted if isinstance(noted, Mapping) else {}
    # The options of one data set mean nothing for another.
    other = arguments.dataset not in (None, stored.get("dataset"))
    settings = data_settings(arguments, None if other else stored)
    if settings["dataset"] is None:
        raise UsageError("[eval] the checkpoint does not name its data set; give --dataset")
    classes: tuple[str, ...] = ()
    if settings["dataset"] == "folder" and _is_another(arguments.data_dir, stored):
        classes = classifier.classes
        settings["image_size"] = classifier.image_shape[1:]
        settings["grayscale"] = classifier.image_shape[0] == 1
    data = load_data(settings, not arguments.no_download, classes)
    if data.classes != classifier.classes or data.image_shape != classifier.image_shape:
        pairs = itertools.zip_longest(data.classes, classifier.classes)
        unlike = next(((a, b) for a, b in pairs if a != b), None)
        raise UsageError(
            f"[eval] {data.name} has {len(data.classes)} classes of images {data.image_shape}, the "
            f"checkpoint was trained on {len(classifier.classes)} of {classifier.image_shape}"
            + (f", and a class is {unlike[0]!r} here, {unlike[1]!r} there" if unlike else "")
            + "; give the data set that it was trained on"
        )
    found = classifier.classify(data.test, arguments.batch_size)
    for line in data_lines(data):
        print(line)
    print(weights_line(str(notes["weights"])))
    print(accuracy_line(found.accuracy))


def predict(arguments: argparse.Namespace) -> None:
    """`fl-vision predict`: one line per image file, best class first."""
    if arguments.out is not None and arguments.out.is_dir():
        raise UsageError(
            f"[predict] --out {arguments.out}: it is a folder; name the picture, such as "
            f"{arguments.out / 'predictions.png'}"
        )
    classifier, _ = load_classifier(arguments.checkpoint)
    drawn: list[tuple[ft.Tensor, str, float]] = []
    bad: list[str] = []
    for start in range(0, len(arguments.images), _BATCH):
        pixels: list[tuple[Path, ft.Tensor]] = []
        for path in arguments.images[start : start + _BATCH]:
            try:
                pixels.append((path, _pixels(path, classifier, arguments.invert)))
            except (DataFileError, DataMissingError) as error:
                bad.append(str(error))
        if not pixels:
            continue
        # Files have levels 0 to 255, the training set had 0 to `peak`.
        batch = ft.stack([image for _, image in pixels]).astype(classifier.normalise.dtype)
        batch = batch * (classifier.peak / 255)
        probabilities = ft.exp(classifier.log_probabilities(batch)).tolist()
        for (path, image), row in zip(pixels, probabilities, strict=True):
            ranked = sorted(range(len(row)), key=lambda k: -row[k])[: arguments.top]
            best = ", ".join(f"{classifier.classes[k]} ({row[k]:.4f})" for k in ranked)
            print(f"{decoded_file_name(str(path))}: {best}")
            if arguments.out is not None:
                drawn.append((image, classifier.classes[ranked[0]], row[ranked[0]]))
    if arguments.out is not None and drawn:
        draw_predictions(arguments.out, drawn)
    if bad and arguments.skip_bad:
        print(skipped_line(bad))
    elif bad:
        raise UsageError(unreadable("predict", bad, f"of {len(arguments.images)} files"))


def data_lines(data: ImageData) -> list[str]:
    """How many images there are, and which files were left out."""
    count = f"{len(data.test)} test images, {len(data.classes)} classes"
    if len(data.train):
        count = f"{len(data.train)} training images, {count}"
    return [count, *([skipped_line(data.skipped)] if data.skipped else [])]


def unreadable(command: str, bad: Sequence[str], what: str = "files") -> str:
    """The error of files that cannot be read, with the first of their errors."""
    more = [f"and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
    head = f"[{command}] {len(bad)} {what} cannot be read (--skip-bad leaves them out):"
    return "\n".join([head, *bad[:_SHOWN], *more])


def skipped_line(bad: Sequence[str]) -> str:
    """The files that were left out, each with its error."""
    return f"left out {len(bad)} files that cannot be read:\n" + "\n".join(bad)


def _stored_path(text: str) -> Path:
    # Written under one locale, read under another.
    return Path(os.fsdecode(text.encode("utf-8", "surrogateescape")))


def _is_another(folder: Path | None, stored: Mapping[str, Any]) -> bool:
    before = stored.get("data_dir")
    return folder is not None and (
        before is None or folder.resolve() != _stored_path(before).resolve()
    )


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
