"""Detectors: recipes, networks, training, evaluation, pictures."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_vision import detection, detectors
from fl_vision.datasets import Scenes
from targets.making import At, target

RECIPE = detectors.DetectionRecipe(
    width=2, stages=3, size=8, heads=2, hidden=8, queries=3, encoder_layers=0, decoder_layers=1,
    batch_size=1, epochs=1,
)  # fmt: skip
OTHER = [value(v) for v in (None, "text", 3, [])]
SET = detection.SetPrediction(ft.ones((1, 2, 3)), ft.full((1, 2, 4), 0.5))
PREDICTIONS = [*[value(v) for v in (None, "text", 3)], value(ft.ones((2, 3)), "of two axes")]
PIXELS = [value(v) for v in (None, "text", 3, [])]
COUNTS = [value(v) for v in (0, -1, 1.5, "a", None)]
SHARES = [value(v) for v in ("a", -1.0, float("nan"), None, 1.5)]
LEVELS: dict[str, Any] = {
    "logits": [ft.zeros((1, 1, 2))],
    "boxes": [ft.zeros((1, 1, 4))],
    "sizes": [(1, 1)],
}
ANCHORS = detection.AnchorGenerator([[8.0]], (1.0,), (8,))


@cache
def detector() -> detectors.Detector:
    return detectors.Detector(RECIPE, Scenes.classes)


def saved() -> dict[str, bytes]:
    """The files of a detector."""
    with tempfile.TemporaryDirectory(prefix="fl-hostile-") as folder:
        detector().save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def scenes() -> Scenes:
    return Scenes(1, 0, size=32)


def image() -> ft.Tensor:
    return scenes().image(0)


def found() -> detection.Detections:
    return detection.Detections(ft.ones((1, 4)), ft.ones((1,)), ft.zeros((1,), dtype=ft.int64))


def of(name: str, good: dict[str, Any], **kinds: Any) -> Target:
    return target(f"vision.detectors.{name}", good, **kinds)


TARGETS: list[Target] = [
    target(
        "vision.detection.detr_detections",
        {"outputs": SET, "sizes": [(8, 8)], "most": 2},
        outputs=PREDICTIONS,
        sizes=[value(v) for v in (None, 3, [], [3], [[0, 1]], [(1, 1), (1, 1)], "a")],
        most=COUNTS,
    ),
    target(
        "vision.detection.retinanet_detections",
        {"outputs": LEVELS, "anchors": lambda: ANCHORS, "sizes": [(8, 8)]},
        outputs=PREDICTIONS,
        anchors=[value(v) for v in (None, "text", 3)],
        sizes=[value(v) for v in (None, 3, [], [3], [[0, 1]], [(1, 1), (1, 1)], "a")],
        score_threshold=SHARES,
        iou_threshold=SHARES,
        most=COUNTS,
        per_level=COUNTS,
    ),
    of(
        "DetectionRecipe",
        {"lr": 1e-3},
        lr=[value(v) for v in ("a", 0.0, -1.0, float("nan"), None)],
        width=COUNTS,
        epochs=COUNTS,
        network=[value(v) for v in ("a", None, 3)],
        amp=[value(v) for v in ("a", None, 3)],
    ),
    of("DetectorRun", {}),
    of("TrainedDetector", {"detector": detector, "history": [], "best": (0.0, 1)}),
    of(
        "Detector",
        {"recipe": RECIPE, "classes": ["a"]},
        recipe=OTHER,
        classes=[value(v) for v in (None, "text", 3, [], [3], ["a", "a"])],
    ),
    target(
        "vision.detectors.Detector detects",
        {"0": lambda: [image()]},
        call=lambda *given: detector().detect(*given),
        _0=[
            *[value(v) for v in (None, "text", 3, [], [3], [None])],
            value([ft.zeros((3, 8, 8))], "floats"),
            value([ft.zeros((2, 8, 8), dtype=ft.uint8)], "two channels"),
            value([ft.zeros((3, 0, 8), dtype=ft.uint8)], "no rows"),
        ],
    ),
    of(
        "load_detector",
        {"folder": At("run", saved())},
        folder=[value(v) for v in (None, 3, "a\0b", [])],
    ),
    of(
        "evaluate_detector",
        {"detector": detector, "data": scenes, "batch_size": 1},
        detector=OTHER,
        data=[*OTHER, value(Scenes(0), "no images")],
        batch_size=COUNTS,
        communicator=[value(v) for v in (3, "a")],
    ),
    of("make_network", {"recipe": RECIPE, "classes": 2}, recipe=OTHER, classes=COUNTS),
    of("make_anchors", {"recipe": RECIPE}, recipe=OTHER),
    of(
        "make_criterion",
        {"recipe": RECIPE, "classes": 2},
        recipe=OTHER,
        classes=COUNTS,
        communicator=[value(v) for v in (3, "a")],
    ),
    of(
        "load_published",
        {
            "path": At("w.safetensors", saved()["weights.safetensors"]),
            "network": lambda: detector().network,
            "kind": "detr",
        },
        path=[value(v) for v in (None, 3, "a\0b")],
        network=OTHER,
        kind=[value(v) for v in (None, 3, "a")],
    ),
    of(
        "train_detector",
        {"recipe": RECIPE, "train": scenes, "progress": False},
        recipe=OTHER,
        train=[*OTHER, value(Scenes(0), "no images")],
        valid=[value(v) for v in ("text", 3)],
        out=[value(v) for v in ("text", 3)],
        communicator=[value(v) for v in (3, "a")],
        prefetch=[value(v) for v in (-1, 1.5, "a")],
        processes=[value(v) for v in (-1, 1.5, "a")],
    ),
    of(
        "draw_boxes",
        {"image": image, "found": found, "classes": ["a"]},
        image=PIXELS,
        found=OTHER,
        classes=[value(v) for v in (None, 3, [])],
        least=[value(v) for v in ("a", None)],
    ),
    of(
        "decoder_attention",
        {"detector": detector, "image": image},
        detector=OTHER,
        image=PIXELS,
    ),
]

UNTRIED: dict[str, str] = {}
