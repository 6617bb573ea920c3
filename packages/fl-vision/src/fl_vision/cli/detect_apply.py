"""`fl-vision detect RUN --eval DATA`, and `fl-vision detect RUN IMAGE ...`."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import decoded_file_name
from fl_tensor.files import replacing
from fl_vision.cli.data import skipped_line, unreadable
from fl_vision.cli.image_paths import decoded_batches, image_paths, unused_path
from fl_vision.detection import CocoFigures, Detections, VocMeter
from fl_vision.detectors import Detector, evaluate_detector, load_detector
from fl_vision.detectors.evaluation import detected
from fl_vision.detectors.pictures import PREDICTIONS, draw_attention, draw_boxes, draw_grid
from fl_vision.detectors.sources import BoxSource, data_notes
from fl_vision.errors import UsageError
from fl_vision.images import read_image
from fl_vision.transforms import picture_of

COLUMNS = ("image", "left", "top", "right", "bottom", "class", "score")
_BATCH = 8
_SHOWN = 16


def evaluate(given: argparse.Namespace) -> list[str]:
    """COCO's figures of a run on images with boxes."""
    detector = load_detector(given.run)
    data = BoxSource(given.eval, given.image_dir, given.classes, given.skip_bad).open()
    batch = given.batch_size or detector.recipe.batch_size
    meters = []
    if given.voc is not None:
        meters.append(VocMeter(detector.classes, eleven_points=given.voc == "2007"))
    figures = evaluate_detector(detector, data, batch_size=batch, meters=meters)
    values = asdict(figures)
    lines = [f"{len(data)} images", *data_notes(data), *str(figures).splitlines(), *_more(figures)]
    for meter in meters:
        lines += str(meter.value).splitlines()
        values["voc"] = {
            "mean_ap": meter.value.mean_ap,
            "per_class": [one._asdict() for one in meter.value.per_class],
        }
    if given.json is not None:
        _write(given.json, json.dumps(values, indent=1))
    if given.pictures is not None:
        chosen = range(min(len(data), _SHOWN))
        found = [one for _, one, _ in detected(detector, data, chosen, batch)]
        given.pictures.mkdir(parents=True, exist_ok=True)
        path = given.pictures / PREDICTIONS
        draw_grid([data.image(n) for n in chosen], found, detector.classes, path, given.least)
        lines.append(f"wrote {path}")
    return lines


def _more(figures: CocoFigures) -> list[str]:
    """The figures by size, and recall."""

    def row(*names: str) -> str:
        shown = ((name, getattr(figures, name)) for name in names)
        return ", ".join(f"{n} {'-' if value < 0 else f'{value:.4f}'}" for n, value in shown)

    return [
        row("ap", "ap50", "ap75"),
        row("ap_small", "ap_medium", "ap_large"),
        row("ar1", "ar10", "ar100"),
        row("ar_small", "ar_medium", "ar_large"),
    ]


def predict(given: argparse.Namespace) -> Iterator[str]:
    """Boxes in images: as lines of CSV, batch by batch, or in files. Files that cannot be read are
    an error at the end, unless they may be left out."""
    if not 0 <= given.least <= 1:
        raise UsageError(f"[detect] --least {given.least:g}: give a score from 0 to 1")
    detector = load_detector(given.run)
    rows: list[dict[str, Any]] = []
    bad: list[str] = []
    written: list[str] = []
    printed = given.csv is None and given.json is None
    if printed:
        yield ",".join(COLUMNS)
    began, count = time.perf_counter(), 0
    paths = image_paths("detect", given.images)
    for batch in decoded_batches(paths, read_image, given.batch_size or _BATCH, given.threads, bad):
        every = detector.detect([image for _, image in batch])
        for (path, image), found in zip(batch, every, strict=True):
            record = _record(path, image, found, detector.classes, given.least)
            if printed:
                yield from _csv([record]).splitlines()
            else:
                rows.append(record)
            if given.pictures is not None:
                written += _pictures(given, detector, path, image, found)
        count += len(batch)
    if given.times:
        rate = count / (time.perf_counter() - began)
        print(f"{count} images, {rate:.1f} images/s", file=sys.stderr)
    if given.json is not None:
        _write(given.json, json.dumps(rows, indent=1))
    if given.csv is not None:
        _write(given.csv, ",".join(COLUMNS) + "\n" + _csv(rows))
    if bad and not given.skip_bad:
        raise UsageError(unreadable("detect", bad, f"of {count + len(bad)} files"))
    if bad:
        yield skipped_line(bad)
    yield from (f"wrote {name}" for name in written)


def _record(
    path: Path, image: ft.Tensor, found: Detections, classes: tuple[str, ...], least: float
) -> dict[str, Any]:
    _, height, width = image.shape
    each = zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
    boxes = [
        {"box": [round(x, 2) for x in box], "class": classes[label], "score": round(score, 4)}
        for box, score, label in each
        if score >= least
    ]
    name = decoded_file_name(str(path))
    return {"image": name, "width": width, "height": height, "boxes": boxes}


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        for one in row["boxes"]:
            writer.writerow([row["image"], *one["box"], one["class"], one["score"]])
    return text.getvalue()


def _pictures(
    given: argparse.Namespace, detector: Detector, path: Path, image: ft.Tensor, found: Detections
) -> list[str]:
    """Write the pictures of an image; their paths."""
    given.pictures.mkdir(parents=True, exist_ok=True)
    out = unused_path(given.pictures, path, given.overwrite)
    with replacing(out) as file:
        picture_of(draw_boxes(image, found, detector.classes, given.least)).save(file, "PNG")
    names = [str(out)]
    if given.attention:
        attention = out.with_name(f"{out.stem}-attention.png")
        draw_attention(detector, image, attention)
        names.append(str(attention))
    return names


def _write(path: Path, text: str) -> None:
    with replacing(path, parents=True) as file:
        file.write(text.encode())
