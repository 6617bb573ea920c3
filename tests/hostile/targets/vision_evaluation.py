"""VOC's figures, shards with boxes, blobs, and attention maps of vision transformers."""

from __future__ import annotations

import io
import json
import tarfile
from functools import cache
from typing import Any

import fl_tensor as ft
import fl_vision.models as models
from bad_values import OPAQUE, value
from cases import Target
from fl_vision import datasets, detection
from targets.detection import FOUND, GOOD, METER
from targets.files import _png, damaged
from targets.making import At, target
from targets.vision_datasets import HARMLESS, NO_DATA, POSITIVE, SEED

NAN = float("nan")


def _tar() -> bytes:
    """An archive of one image with a box."""
    described = json.dumps({"boxes": [[0, 0, 2, 2]], "labels": [0]}).encode()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in (("1.png", _png()), ("1.json", described)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def _shards(path: Any, classes: Any = ("a",), **options: Any) -> Any:
    return list(datasets.DetectionShards([path], classes, **options))


@cache
def _vit() -> models.ViT:
    return models.ViT(4, 4, 2, 1, 8, 3)


def _images() -> ft.Tensor:
    return ft.ones((1, 3, 8, 8))


_MODELS = [value(v) for v in (None, "text", 3)]
_IMAGES = [value(v) for v in (None, "text", 3)] + [value(ft.ones((1, 3, 4, 4)), "of another size")]

TARGETS: list[Target] = [
    target(
        "vision.detection.VocMeter",
        {"classes": 2},
        classes=[value(v) for v in (None, 0, -1, 1.5, [3], [], "ab")],
        iou_threshold=[value(v) for v in (None, "a", 0, -0.5, 1.5, NAN, True)],
        eleven_points="flag",
        box_format="choice",
    ),
    target(
        "vision.detection.VocMeter adds",
        METER,
        call=lambda *given: detection.VocMeter(2).add(*given),
        _0=[
            *[value(v) for v in (None, "text", 3, [], [3], [None], FOUND)],
            *(value([FOUND | {"scores": v}], f"scores {v}") for v in ([NAN], [0.1, 0.2], "a")),
            *(value([FOUND | {"labels": v}], f"labels {v}") for v in ([2], [0.5], [0, 0])),
        ],
        _1=[
            *[value(v) for v in (None, "text", 3, [], [3], [None], GOOD)],
            *(value([GOOD | {"image_id": v}], f"image {v}") for v in ([1], {}, NAN)),
            value([METER["1"][0] | {"difficult": [0, 0]}], "two flags"),
        ],
    ),
    target(
        "vision.datasets.DetectionShards",
        {"path": At("a.tar", _tar())},
        call=_shards,
        path="input_path",
        classes=[value(v) for v in (None, 3, "a", [], [3])],
        seed=SEED,
    ),
    target(
        "vision.datasets.DetectionShards of a damaged file",
        {"path": At("a.tar", _tar())},
        call=_shards,
        path=[bad for bad in damaged("a.tar", _tar()) if bad.label not in HARMLESS],
    ),
    target(
        "vision.datasets.write_detection_shards",
        {"0": lambda: datasets.Scenes(1, size=32), "1": At("out")},
        _0=NO_DATA,
        _1=[value(3.5), value([]), OPAQUE],
        per_shard=POSITIVE,
        seed=SEED,
    ),
    target(
        "vision.datasets.write_blobs",
        {"0": At("in", {f"{s}/cat/1.png": _png() for s in ("train", "val")}), "1": At("out")},
        _0="no_path",
        _1=[value(3.5), value([]), OPAQUE],
    ),
    target(
        "vision.models.class_attention",
        {"model": _vit, "images": _images},
        model=_MODELS,
        images=_IMAGES,
        layer=[value(v) for v in (1, -2, 0.5, "a", None)],
    ),
    target(
        "vision.models.attention_rollout",
        {"model": _vit, "images": _images},
        model=_MODELS,
        images=_IMAGES,
    ),
]
UNTRIED: dict[str, str] = {
    **{f"vision.detection.{name}": "a record of values" for name in ("VocFigures", "VocPrecision")},
    "vision.datasets.load_blobs": "a loader; takes a record of options",
}
