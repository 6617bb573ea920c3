"""Pictures of detections, and of where the decoder of DETR looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import ImageColor, ImageDraw

import fl_nn as nn
import fl_tensor as ft
from fl_nn import plot
from fl_nn.extend import tensor_of as tensor_of_array
from fl_tensor.annotations import checked
from fl_vision.detection import Detections
from fl_vision.detectors.detector import Detector, _colours
from fl_vision.errors import UsageError
from fl_vision.models.attention_maps import attention_weights
from fl_vision.models.positions import reduce_mask
from fl_vision.transforms import picture_of
from fl_vision.transforms.pixels import tensor_of

CURVES, PREDICTIONS = "learning_curve.png", "predictions.png"
#: Frames of classes, in turn.
_COLOURS = ("#e6194b", "#3cb44b", "#ffe119", "#4363d8", "#f58231", "#42d4f4", "#f032e6", "#bfef45")


@checked
def draw_boxes(
    image: ft.Tensor, found: Detections, classes: Sequence[str], least: float = 0.5
) -> ft.Tensor:
    """The uint8 image (3, height, width) with the boxes of a score of at least `least`, each with
    the name of its class and its score. Raises `UsageError` for other images and for labels that
    are no classes."""
    labels = found.labels.tolist()
    if labels and not 0 <= min(labels) <= max(labels) < len(classes):
        raise UsageError(
            f"[draw_boxes] labels {min(labels)} to {max(labels)} for {len(classes)} classes: give "
            "the names of all"
        )
    rows = zip(found.scores.tolist(), found.boxes.tolist(), labels, strict=True)
    drawn = sorted((row for row in rows if row[0] >= least), key=lambda row: row[0])
    words = [f"{classes[label]} {score:.2f}" for score, _, label in drawn]
    return framed(image, [row[1] for row in drawn], [row[2] for row in drawn], words)


def framed(
    image: ft.Tensor,
    boxes: Sequence[Sequence[float]],
    labels: Sequence[int],
    words: Sequence[str],
) -> ft.Tensor:
    """The uint8 image (3, height, width) with boxes in the colours of their labels, the last in
    front, and words in them on a ground of that colour, so that they are read on any image."""
    picture = picture_of(_colours(image))
    pen = ImageDraw.Draw(picture)
    for box, label, said in zip(boxes, labels, words, strict=True):
        colour = _COLOURS[label % len(_COLOURS)]
        left, top, right, bottom = (round(x) for x in box)
        pen.rectangle([left, top, max(right - 1, left), max(bottom - 1, top)], outline=colour)
        text = said.encode("latin-1", "replace").decode("latin-1")
        ground = pen.textbbox((left + 2, top), text)
        pen.rectangle([left, ground[1] - 1, ground[2] + 1, ground[3] + 1], fill=colour)
        dark = sum(ImageColor.getrgb(colour)[:3]) > 3 * 128
        pen.text((left + 2, top), text, fill="black" if dark else "white")
    return tensor_of(picture)


@checked
def decoder_attention(detector: Detector, image: ft.Tensor) -> ft.Tensor:
    """Where the last decoder layer of a DETR looks in one image: weights (queries, rows, columns)
    over the last map of the backbone, the mean over heads. Those of a query sum to 1. Rows and
    columns beyond the image are left out. Carion et al., 2020, figure 6.

    Raises `UsageError` for another network.
    """
    if detector.recipe.network != "detr":
        raise UsageError(
            f"[decoder_attention] the network is a {detector.recipe.network}: only a detr has a "
            "decoder"
        )
    network: Any = detector.network
    layer = network.decoder[-1].multihead_attn
    seen: list[tuple[Any, ...]] = []
    remove = layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs))
    pixels, mask = detector.inputs([detector.resized(_colours(image))])
    maps: list[Any] = []
    remove_map = network.input_proj.register_forward_hook(
        lambda m, i, output: maps.append(output.shape)
    )
    try:
        with nn.evaluating(detector), ft.reproducible():
            detector(pixels, mask)
            query, key = seen[0][:2]
            _, _, height, width = maps[0]
            known = reduce_mask(mask, height, width)
            every = attention_weights(layer, query, key, known.reshape(1, height * width))
            weights = ft.mean(every, axis=1)[0]
    finally:
        remove()
        remove_map()
    inside = known[0].tolist()
    rows, columns = sum(any(row) for row in inside), sum(inside[0])
    found = weights.reshape(weights.shape[0], height, width)[:, :rows, :columns]
    return tensor_of_array(found)


@checked
def draw_attention(detector: Detector, image: ft.Tensor, path: str | Path) -> None:
    """Write a picture of the attention of the queries that find something, the surest first. Raises
    fl_tensor.MissingError without matplotlib."""
    weights = decoder_attention(detector, image)
    small = detector.resized(_colours(image))
    pixels, mask = detector.inputs([small])
    with nn.evaluating(detector), ft.reproducible():
        logits = detector(pixels, mask).logits
    scores = ft.softmax(logits, -1)[0, :, :-1]
    best = ft.max(scores, axis=1).tolist()
    labels = ft.argmax(scores, axis=1).tolist()
    order = sorted(range(len(best)), key=lambda query: -best[query])[:8]
    titles = [f"{detector.classes[labels[query]]} {best[query]:.2f}" for query in order]
    maps = [weights[query] / float(weights[query].max().item() or 1) for query in order]
    plot.images(maps, titles=titles, limits=(0.0, 1.0), title="attention of queries", path=path)


@checked
def draw_grid(
    images: Sequence[ft.Tensor],
    found: Sequence[Detections],
    classes: Sequence[str],
    path: str | Path,
    least: float = 0.5,
) -> None:
    """Write a grid of images with their boxes. Raises fl_tensor.MissingError without matplotlib."""
    drawn = [draw_boxes(image, one, classes, least) for image, one in zip(images, found)]
    plot.images(drawn, title=f"boxes with scores from {least:g}", path=path)


def draw_curves(history: Sequence[dict[str, Any]], path: str | Path) -> None:
    """Write loss and average precision over the epochs of a history."""
    measured = any("valid_ap" in record for record in history)
    names = ["loss", "ap", "ap50"] if measured else ["loss"]
    plot.curves(
        history,
        metrics=names,
        log=["loss"],
        labels={"ap": "AP", "ap50": "AP50", "train": "training", "valid": "validation"},
        path=path,
    )
