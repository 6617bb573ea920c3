"""Masks and average precision against pycocotools. FL_COCO_SETS: how many random sets, by default
30; the whole is 1,000."""

from __future__ import annotations

import contextlib
import copy
import io
import os
from typing import Any

import numpy as np
import pytest

from fl_vision.detection import RLE, CocoMeter, Detections, GroundTruth, mask_iou, merge_masks

pytest.importorskip("pycocotools")
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SETS = int(os.environ.get("FL_COCO_SETS", "30"))
CLASSES = 4
#: Its `decode` does not take the copy that NumPy 2 asks for.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def theirs(data: dict[str, Any], found: list[dict[str, Any]], kind: str) -> list[float]:
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = copy.deepcopy(data)
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(copy.deepcopy(found)), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(x) for x in evaluation.stats]


def ours(meter: CocoMeter) -> list[float]:
    v = meter.value
    return [
        *(v.ap, v.ap50, v.ap75, v.ap_small, v.ap_medium, v.ap_large),
        *(v.ar1, v.ar10, v.ar100, v.ar_small, v.ar_medium, v.ar_large),
    ]


def random_boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    """xywh; some sizes are common to objects and detections, so that overlaps meet thresholds."""
    sizes = rng.choice([8, 16, 30, 32, 60, 96, 120], (count, 2))
    return np.concatenate([rng.integers(0, 40, (count, 2)) * 2, sizes], 1).astype(float)


def random_set(rng: np.random.Generator) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Annotations and results as COCO has them: crowds, ties, images without objects or
    detections, classes without objects, and more than 100 detections of a class."""
    images = int(rng.integers(2, 9))
    data: dict[str, Any] = {
        "images": [{"id": i, "height": 200, "width": 200} for i in range(images)],
        "categories": [{"id": k, "name": str(k)} for k in range(CLASSES)],
        "annotations": [],
        "info": {},
    }
    found: list[dict[str, Any]] = []
    scores = rng.choice([0.1, 0.2, 0.25, 0.5, 0.9], 5) if rng.random() < 0.5 else None
    for image in range(images):
        boxes = random_boxes(rng, int(rng.integers(0, 9)))
        labels = rng.integers(0, CLASSES - 1, len(boxes))
        for box, label in zip(boxes, labels, strict=True):
            crowd = int(rng.random() < 0.15)
            area = float(box[2] * box[3] * rng.choice([1.0, 0.5]))
            data["annotations"].append(
                {
                    "id": len(data["annotations"]) + 1,
                    "image_id": image,
                    "category_id": int(label),
                    "bbox": box.tolist(),
                    "area": area,
                    "iscrowd": crowd,
                }
            )
        near = boxes[rng.integers(0, len(boxes), len(boxes) * 3)] if len(boxes) else boxes
        near = near + rng.integers(-3, 4, near.shape) * 2
        near[:, 2:] = np.maximum(near[:, 2:], 1)
        crowded = 130 if rng.random() < 0.1 else int(rng.integers(0, 6))
        some = np.concatenate([near, random_boxes(rng, crowded)])
        kinds = rng.integers(0, CLASSES, len(some)) if crowded < 100 else np.zeros(len(some), int)
        for box, label in zip(some, kinds, strict=True):
            score = rng.choice(scores) if scores is not None else rng.random()
            found.append(
                {
                    "image_id": image,
                    "category_id": int(label),
                    "bbox": box.tolist(),
                    "score": float(score),
                }
            )
    return data, found


def in_images(
    data: dict[str, Any], found: list[dict[str, Any]], masks: bool
) -> tuple[list[Detections], list[GroundTruth]]:
    detections, truths = [], []
    for image in (one["id"] for one in data["images"]):
        mine = [d for d in found if d["image_id"] == image]
        gold = [a for a in data["annotations"] if a["image_id"] == image]

        def runs(entries: list[dict[str, Any]]) -> list[RLE] | None:
            if not masks:
                return None
            return [RLE.from_coco(e["segmentation"], 200, 200) for e in entries]

        def boxes(entries: list[dict[str, Any]]) -> np.ndarray:
            given = [e.get("bbox", [0.0, 0.0, 1.0, 1.0]) for e in entries]
            return np.array(given, np.float64).reshape(-1, 4)

        detections.append(
            Detections(
                boxes(mine),
                np.array([d["score"] for d in mine]),
                np.array([d["category_id"] for d in mine], int),
                runs(mine),
            )
        )
        truths.append(
            GroundTruth(
                boxes(gold),
                np.array([a["category_id"] for a in gold], int),
                image,
                np.array([a["area"] for a in gold]),
                np.array([a["iscrowd"] for a in gold], bool),
                masks=runs(gold),
            )
        )
    return detections, truths


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_figures_of_random_detections_are_equal(kind):
    for seed in range(SETS if kind == "bbox" else max(SETS // 5, 1)):
        rng = np.random.default_rng(seed)
        data, found = random_set(rng)
        if not found:
            continue
        masks = kind == "segm"
        if masks:
            for number, entry in enumerate(data["annotations"]):
                entry["segmentation"] = segmentation(entry["bbox"], number % 3)
            for entry in found:
                entry["segmentation"] = segmentation(entry.pop("bbox"), 0)
        # Results come back from a file in any order of images.
        detections, truths = in_images(data, found, masks)
        order = rng.permutation(len(truths))
        meter = CocoMeter(CLASSES, box_format="xywh", masks=masks)
        meter.add([detections[i] for i in order], [truths[i] for i in order])
        wanted = theirs(data, found, kind)
        assert ours(meter) == pytest.approx(wanted, abs=1e-9), f"seed {seed}"


def segmentation(box: list[float], form: int) -> Any:
    """A kite in a box: as compressed text, as counts, or as a polygon."""
    x, y, w, h = box
    polygon = [x, y, x + w, y + h / 3, x + w / 2, y + h, x - 4, y + h / 2]
    if form == 2:
        return [polygon]
    mask = RLE.from_polygons([polygon], 200, 200)
    counts = mask.to_text() if form == 0 else mask.counts.tolist()
    return {"size": [200, 200], "counts": counts}


def test_polygons_are_rasterised_equally():
    rng = np.random.default_rng(1)
    for k in range(400):
        height, width = (int(n) for n in rng.integers(1, 40, 2))
        polygons = []
        for _ in range(rng.integers(1, 3)):
            points = rng.uniform(-10, 60, 2 * rng.integers(3, 9))
            # Whole and half pixels decide the rounding.
            points = points if k % 3 == 0 else np.round(points * (k % 3)) / (k % 3)
            polygons.append(points.tolist())
        wanted = coco_mask.merge(coco_mask.frPyObjects(polygons, height, width))
        found = RLE.from_polygons(polygons, height, width)
        assert found.to_text() == wanted["counts"].decode()
        assert np.array_equal(found.decode(), coco_mask.decode(wanted))


def test_masks_are_equal():
    rng = np.random.default_rng(2)
    pixels = [(rng.random((30, 40)) < p).astype(np.uint8) for p in (0.1, 0.5, 0.9, 0.0, 1.0)]
    mine = [RLE.encode(mask) for mask in pixels]
    other = [coco_mask.encode(np.asfortranarray(mask)) for mask in pixels]
    for a, b, mask in zip(mine, other, pixels, strict=True):
        assert a.to_text() == b["counts"].decode()
        assert a.area == coco_mask.area(b)
        x, y, w, h = coco_mask.toBbox(b)
        assert a.box == (x, y, x + w, y + h)
        assert np.array_equal(RLE.from_text(b["counts"], 30, 40).decode(), mask)
    crowd = [False, True, False, True, False]
    assert np.array_equal(mask_iou(mine, mine, crowd), coco_mask.iou(other, other, crowd))
    for intersect in (False, True):
        wanted = coco_mask.merge(other[:3], intersect)
        assert merge_masks(mine[:3], intersect).to_text() == wanted["counts"].decode()
