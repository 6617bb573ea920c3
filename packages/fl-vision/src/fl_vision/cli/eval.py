"""``fl-vision eval``: how good a classifier is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import fl_tensor as ft
from fl_nn import ConfusionMeter, plot
from fl_nn.extend import runtime, runtime_options
from fl_vision.classifier import Classified, load_classifier
from fl_vision.cli.data import (
    accuracy_line,
    data_lines,
    data_settings,
    find_dataset,
    is_another,
    load_data,
    weights_line,
)
from fl_vision.cli.options import Parser, data_options, whole
from fl_vision.errors import UsageError

#: The figure of the five best is printed from more classes on than this.
_BEST = 5


def main(arguments: list[str]) -> None:
    """Print the accuracy as `train` prints it. Of another folder than that of the training all
    images count, or those of its `test/`."""
    given = _parser().parse_args(arguments)
    find_dataset(given, given.data)
    with runtime(given):
        classifier, notes = load_classifier(given.checkpoint)
        noted = notes.get("data")
        stored = noted if isinstance(noted, Mapping) else {}
        # The options of one data set mean nothing for another.
        other = given.dataset not in (None, stored.get("dataset"))
        settings = data_settings(given, None if other else stored)
        if settings["dataset"] is None:
            raise UsageError("[eval] the checkpoint does not name its data set; give --dataset")
        classes: tuple[str, ...] = ()
        if settings["dataset"] == "folder" and is_another(given.data_dir, stored):
            classes = classifier.classes
            settings["image_size"] = classifier.image_shape[1:]
            settings["grayscale"] = classifier.image_shape[0] == 1
        data = load_data(settings, not given.no_download, classes, given.cache)
        if data.classes != classifier.classes or data.image_shape != classifier.image_shape:
            pairs = itertools.zip_longest(data.classes, classifier.classes)
            unlike = next(((a, b) for a, b in pairs if a != b), None)
            raise UsageError(
                f"[eval] {data.name} has {len(data.classes)} classes of images {data.image_shape}, "
                f"the checkpoint was trained on {len(classifier.classes)} of "
                f"{classifier.image_shape}"
                + (f", and a class is {unlike[0]!r} here, {unlike[1]!r} there" if unlike else "")
                + "; give the data set that it was trained on"
            )
        found = classifier.classify(data.test, given.batch_size)
    lines = data_lines(data)
    counts = confusion(found, len(classifier.classes))
    if given.per_class:
        lines += class_table(counts, classifier.classes)
    if given.confusion is not None:
        plot.confusion(counts, classes=list(classifier.classes), path=given.confusion)
        lines.append(f"wrote {given.confusion}")
    if given.json is not None:
        given.json.write_text(json.dumps(_values(found, counts, classifier.classes), indent=1))
        lines.append(f"wrote {given.json}")
    lines.append(weights_line(str(notes["weights"])))
    if len(classifier.classes) > _BEST:
        lines.append(f"test accuracy of the best five {found.top(_BEST):.4f}")
    for line in [*lines, accuracy_line(found.accuracy)]:
        print(line)


def confusion(found: Classified, classes: int) -> ConfusionMeter:
    """How often each class was taken for each."""
    meter = ConfusionMeter(classes)
    meter.add(ft.asarray(found.predicted, ft.int64), ft.asarray(found.truth, ft.int64))
    return meter


def class_table(counts: ConfusionMeter, classes: tuple[str, ...]) -> list[str]:
    """A line for each class."""
    width = max(5, *map(len, classes))
    lines = [f"{'class':<{width}}  precision  recall      f1  images"]
    for name, each in zip(classes, counts.per_class, strict=True):
        lines.append(
            f"{name:<{width}}  {each.precision:9.4f}  {each.recall:6.4f}  {each.f1:6.4f}"
            f"  {each.support:6d}"
        )
    return lines


def _values(
    found: Classified, counts: ConfusionMeter, classes: tuple[str, ...]
) -> dict[str, object]:
    per_class = {name: each._asdict() for name, each in zip(classes, counts.per_class, strict=True)}
    return {
        "images": len(found.truth),
        "top1": found.accuracy,
        "top5": found.top(_BEST),
        "classes": per_class,
        "macro": counts.averaged("macro")._asdict(),
    }


def _parser() -> Parser:
    parser = Parser("fl-vision eval", "Measure a classifier on the test images of a data set.")
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="RUN", help="checkpoint file, or the folder of the run")
    add("data", nargs="?", metavar="DATA", help="folder of images, or a name (default: as trained)")
    add("--batch-size", type=whole(1), default=256, metavar="N", help="(%(default)s)")
    add("--per-class", action="store_true", help="precision, recall and F1 of each class")
    add("--confusion", type=Path, metavar="FILE", help="picture of the confusion matrix")
    add("--json", type=Path, metavar="FILE", help="all figures")
    data_options(parser, "that of the checkpoint")
    runtime_options(parser)
    return parser
