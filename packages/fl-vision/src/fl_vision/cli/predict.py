"""``fl-vision predict``: the classes of image files."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import fl_nn as nn
import fl_tensor as ft
from fl_data import decoded_file_name
from fl_nn.extend import runtime, runtime_options
from fl_tensor.files import replacing
from fl_vision.classifier import Classifier, load_classifier
from fl_vision.cli.data import skipped_line, unreadable
from fl_vision.cli.image_paths import decoded_batches, image_paths, unused_path
from fl_vision.cli.options import Parser, whole
from fl_vision.errors import UsageError
from fl_vision.images import read_image
from fl_vision.models import ViT, class_attention
from fl_vision.report import attention_picture, draw_predictions

FORMATS = ("text", "csv", "json")


class Prediction(NamedTuple):
    """The best classes of a file, each with its probability."""

    path: str
    best: list[tuple[str, float]]


def main(arguments: list[str]) -> None:
    """Print one line per image file, best class first."""
    given = _parser().parse_args(arguments)
    if given.out is not None and given.out.is_dir():
        raise UsageError(
            f"[predict] --out {given.out}: it is a folder; name the picture, such as "
            f"{given.out / 'predictions.png'}"
        )
    with runtime(given):
        classifier, _ = load_classifier(given.checkpoint)
        if given.attention is not None and not isinstance(classifier.model, ViT):
            raise UsageError(
                f"[predict] --attention: the network is a {classifier.network['name']}, and only "
                "vision transformers have a class token that attends to patches; leave it out"
            )
        score = scorer(classifier, given.compiled)
        drawn: list[tuple[ft.Tensor, str, float]] = []
        bad: list[str] = []
        write = _writer(given.format)
        start, count = time.perf_counter(), 0
        paths = image_paths("predict", given.images)
        read = partial(_pixels, classifier, given.invert)
        for batch in decoded_batches(paths, read, given.batch_size, given.threads, bad):
            # Files have levels 0 to 255, the training set had 0 to `peak`.
            pixels = ft.stack([image for _, image in batch]).astype(classifier.normalise.dtype)
            pixels = pixels * (classifier.peak / 255)
            rows = ft.exp(score(pixels)).tolist()
            if given.attention is not None:
                _draw_attention(given.attention, classifier, batch, pixels)
            for (path, image), row in zip(batch, rows, strict=True):
                ranked = sorted(range(len(row)), key=lambda k: -row[k])[: given.top]
                best = [(classifier.classes[k], row[k]) for k in ranked]
                write(Prediction(decoded_file_name(str(path)), best))
                if given.out is not None:
                    drawn.append((image, *best[0]))
            count += len(batch)
        seconds = time.perf_counter() - start
    if given.times:
        print(f"{count} images, {count / seconds:.1f} images/s", file=sys.stderr)
    if given.out is not None and drawn:
        draw_predictions(given.out, drawn)
    if bad and given.skip_bad:
        print(skipped_line(bad), file=sys.stdout if given.format == "text" else sys.stderr)
    elif bad:
        raise UsageError(unreadable("predict", bad, f"of {count + len(bad)} files"))


def scorer(classifier: Classifier, compiled: bool) -> Callable[[ft.Tensor], ft.Array]:
    """Pixels give log-probabilities, by a graph of the network where `compiled`."""
    if not compiled:
        return classifier.log_probabilities
    run = nn.compile(lambda x: ft.log_softmax(classifier.model(x), 1), classifier.model)

    def score(pixels: ft.Tensor) -> ft.Array:
        with ft.reproducible(), nn.evaluating(classifier.model):
            return run(classifier.normalise(pixels))

    return score


def _draw_attention(
    folder: Path, classifier: Classifier, batch: Sequence[tuple[Path, ft.Tensor]], pixels: ft.Tensor
) -> None:
    """Write a picture for each image: the image, and where the last layer looks in it."""
    folder.mkdir(parents=True, exist_ok=True)
    model: Any = classifier.model
    weights = ft.mean(class_attention(model, classifier.normalise(pixels)), axis=1)
    for (path, image), each in zip(batch, ft.unstack(weights), strict=True):
        with replacing(unused_path(folder, path)) as file:
            attention_picture(image, each).save(file, "PNG")


def _pixels(classifier: Classifier, invert: bool, path: Path) -> ft.Tensor:
    channels, height, width = classifier.image_shape
    pixels = read_image(path, size=(height, width), grayscale=channels == 1)
    return ft.subtract(ft.full_like(pixels, 255), pixels) if invert else pixels


def _writer(kind: str) -> Callable[[Prediction], None]:
    """A function that prints a prediction at once."""
    if kind == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["file", "place", "class", "probability"])

        def rows(found: Prediction) -> None:
            for place, (name, probability) in enumerate(found.best, 1):
                writer.writerow([found.path, place, name, f"{probability:.6f}"])
            sys.stdout.flush()

        return rows
    if kind == "json":
        return lambda found: print(
            json.dumps(
                {
                    "file": found.path,
                    "best": [{"class": name, "probability": p} for name, p in found.best],
                }
            ),
            flush=True,
        )
    return lambda found: print(
        f"{found.path}: {', '.join(f'{name} ({p:.4f})' for name, p in found.best)}", flush=True
    )


def _parser() -> Parser:
    parser = Parser(
        "fl-vision predict",
        "Classify image files: those named, those below folders, and for - the paths on standard "
        "input, a line each. With --format json, each line is an object.",
    )
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="RUN", help="checkpoint file, or the folder of the run")
    add("images", type=Path, nargs="+", help="files, folders, or -")
    add("--format", choices=FORMATS, default="text", help="(%(default)s)")
    add("--top", type=whole(1), default=1, metavar="N", help="best classes (%(default)s)")
    add("--invert", action="store_true", help="dark strokes on light paper, trained on the reverse")
    add("--out", type=Path, metavar="FILE", help="also draw the predictions into this file")
    add("--attention", type=Path, metavar="FOLDER", help="vit: pictures of where it looks")
    add("--skip-bad", action="store_true", help="leave out unreadable files")
    add("--batch-size", type=whole(1), default=64, metavar="N", help="1: each at once (64)")
    add("--threads", type=whole(1), default=2, metavar="N", help="that decode (%(default)s)")
    add("--compiled", action="store_true", help="run the network as a graph")
    add("--times", action="store_true", help="images per second, on standard error")
    runtime_options(parser)
    return parser
