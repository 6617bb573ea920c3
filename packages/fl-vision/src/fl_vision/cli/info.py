"""``fl-vision info``: what a run, a network or a data set is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import given_settings, recipe_options, runtime, runtime_options
from fl_vision.classifier import checkpoint_path, load_classifier
from fl_vision.cli.data import data_lines, data_settings, find_dataset, load_data
from fl_vision.cli.options import Parser, data_options, whole
from fl_vision.datasets.class_counts import class_counts
from fl_vision.models.by_name import create_network, network_names
from fl_vision.recipe import Recipe
from fl_vision.training.optimisation import network_options

#: Classes that are listed.
_LISTED = 50


def main(arguments: list[str]) -> None:
    """Print one fact per line."""
    given = _parser().parse_args(arguments)
    with runtime(given):
        if given.what in network_names():
            lines = _network(given)
        elif checkpoint_path(given.what).is_file():
            lines = _run(Path(given.what), given.layers)
        else:
            lines = _dataset(given)
    for line in lines:
        print(line)


def _run(path: Path, layers: bool) -> list[str]:
    classifier, notes = load_classifier(path)
    lines = [f"network {classifier.network['name']}"]
    lines += size_lines(classifier.model, classifier.image_shape, layers)
    lines.append(f"classes {_listed(classifier.classes)}")
    lines.append(f"weights of {notes['weights']}")
    for name in ("data", "recipe"):
        values = notes.get(name)
        if isinstance(values, Mapping):
            said = (f"{key}={value}" for key, value in values.items() if value is not None)
            lines.append(f"{name}: {', '.join(said)}")
    return lines


def _network(given: argparse.Namespace) -> list[str]:
    size = given.image_size or (224, 224)
    shape = (1 if given.grayscale else 3, *size)
    recipe = Recipe(**given_settings(given, Recipe) | {"network": given.what})
    with ft.use("null"):  # values are not needed
        model = create_network(given.what, given.classes, shape, network_options(recipe))
    return [f"network {given.what}", *size_lines(model, shape, given.layers)]


def size_lines(model: nn.Module, image_shape: tuple[int, ...], layers: bool) -> list[str]:
    """Parameters and operations of a network for one image."""
    found = nn.summary(model, (1, *image_shape))
    lines = [str(found)] if layers else []
    lines.append(f"image (channels, height, width) {image_shape}")
    lines.append(f"parameters {found.parameters:,}")
    lines.append(f"multiply-adds {found.multiply_adds:,}, FLOPs {found.flops:,}")
    return lines


def _dataset(given: argparse.Namespace) -> list[str]:
    find_dataset(given, given.what)
    data = load_data(data_settings(given), not given.no_download, cache=given.cache)
    lines = [f"data set {data.name}", *data_lines(data)]
    if data.valid is not None:
        lines.append(f"{len(data.valid)} validation images")
    lines.append(f"image (channels, height, width) {data.image_shape}")
    if given.counts:
        for side, samples in (("training", data.train), ("test", data.test)):
            counts = class_counts(samples, len(data.classes))
            pairs = zip(data.classes, counts, strict=True)
            lines.append(f"{side} images: {', '.join(f'{n} {c}' for n, c in pairs)}")
    else:
        lines.append(f"classes {_listed(data.classes)}")
    return lines


def _listed(classes: tuple[str, ...]) -> str:
    more = f", and {len(classes) - _LISTED} more" if len(classes) > _LISTED else ""
    return f"{len(classes)}: {', '.join(classes[:_LISTED])}{more}"


def _parser() -> Parser:
    parser = Parser(
        "fl-vision info",
        "Say what a run, a network or a data set is: parameters and operations for one image, "
        "classes, settings, numbers of images.",
    )
    add: Any = parser.add_argument
    add("what", metavar="WHAT", help="run folder, checkpoint, network, data set, or its folder")
    add("--layers", action="store_true", help="a line for each layer")
    add("--counts", action="store_true", help="of a data set: images of each class")
    add("--classes", type=whole(1), default=1000, metavar="N", help="of a network (%(default)s)")
    data_options(parser, "WHAT")
    recipe_options(parser, Recipe)
    runtime_options(parser)
    return parser
