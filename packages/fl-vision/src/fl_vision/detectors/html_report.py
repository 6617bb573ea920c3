"""The report of a detector in HTML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

import fl_tensor as ft
from fl_tensor.files import replacing
from fl_vision.datasets import Target
from fl_vision.detection import CocoFigures, Detections
from fl_vision.detectors.pictures import draw_boxes, framed
from fl_vision.detectors.training import TrainedDetector
from fl_vision.html_parts import curve, figure, inline_picture, page, table, values_of
from fl_vision.transforms import picture_of
from fl_vision.transforms.pixels import tensor_of

REPORT = "report.html"
#: Pixels of the longer side of a picture, at most.
_LONG = 256


def write_detection_report(
    path: str | os.PathLike[str],
    trained: TrainedDetector,
    shown: Sequence[tuple[ft.Tensor, Detections, Target]],
    figures: CocoFigures | None,
    about: Sequence[tuple[str, str]],
    least: float = 0.5,
) -> None:
    """Write curves, COCO's figures of all classes and of each, pictures with the boxes that were
    found beside the true ones, and settings.

    shown    images with what was found in them and what is there
    figures  of the detector on validation images; None: there are none
    about    rows of the first table
    least    the lowest score of a box that is drawn
    """
    detector, history = trained.detector, trained.history
    seconds = sum(float(record["seconds"]) for record in history)
    best = f"epoch {trained.best[1]}, of the best AP" if trained.best[1] else "the last epoch"
    rows = [*about, ("weights of", best), ("epochs", f"{len(history)} in {seconds:.1f} s")]
    parts = [
        f"<h1>{escape(detector.recipe.network)}, {len(detector.classes)} classes</h1>",
        table(("", ""), rows),
        "<h2>Learning curves</h2>",
        curve("loss", {"training": values_of(history, "train_loss")}),
        curve(
            "average precision, validation",
            {name: values_of(history, f"valid_{name.lower()}") for name in ("AP", "AP50", "AP75")},
        ),
    ]
    if figures is not None:
        parts += ["<h2>Average precision</h2>", *_precision(figures)]
    parts.append(
        f"<h2>Pictures</h2><p>Above: boxes that were found, with scores from {least:g}. Below: the "
        "true boxes.</p>"
    )
    parts += [_pair(*each, detector.classes, least) for each in shown]
    parts += ["<h2>Settings</h2>", table(("setting", "value"), detector.recipe.values().items())]
    with replacing(path) as file:
        file.write(page(f"{detector.recipe.network} detector", parts))


def _precision(figures: CocoFigures) -> list[str]:
    """A table of areas, and one of classes."""

    def said(*values: float) -> tuple[str, ...]:
        return tuple("-" if value < 0 else f"{value:.4f}" for value in values)

    f = figures
    areas = [
        ("all", *said(f.ap, f.ap50, f.ap75, f.ar100)),
        *(
            (f"{name} objects", *said(ap), "", "", *said(ar))
            for name, ap, ar in (
                ("small", f.ap_small, f.ar_small),
                ("medium", f.ap_medium, f.ar_medium),
                ("large", f.ap_large, f.ar_large),
            )
        ),
    ]
    each = [
        (one.name, *said(one.ap, one.ap50, one.ap75, one.ar100), str(one.objects))
        for one in f.per_class
    ]
    head = ("AP", "AP50", "AP75", "AR100")
    return [table(("", *head), areas), table(("class", *head, "objects"), each)]


def _pair(
    image: ft.Tensor, found: Detections, truth: Target, classes: Sequence[str], least: float
) -> str:
    """Two pictures of an image, one below the other, at the size of the report."""
    larger, scale = _enlarged(image)
    above = draw_boxes(larger, found._replace(boxes=found.boxes * scale), classes, least)
    labels = truth.labels.tolist()
    names = [classes[label] for label in labels]
    below = framed(larger, (truth.boxes * scale).tolist(), labels, names)
    return figure(inline_picture(above) + inline_picture(below), str(truth.image_id))


def _enlarged(image: ft.Tensor) -> tuple[ft.Tensor, ft.Tensor]:
    """The image with a longer side of 256 pixels, and what boxes are multiplied with: words that
    are drawn then do not hide small images."""
    picture = picture_of(image)
    scale = _LONG / max(picture.size)
    wide, high = (max(1, round(side * scale)) for side in picture.size)
    larger = tensor_of(picture.resize((wide, high), 0 if scale > 1 else 2))
    across, down = wide / picture.width, high / picture.height
    return larger, ft.asarray([across, down, across, down], dtype=ft.float32)
