"""Datasets of fl-vision: boxes, shards, synsets, drawn scenes."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import fl_data as data
from bad_values import KINDS, OPAQUE, value
from cases import Target
from fl_vision import datasets
from targets.files import _png, damaged
from targets.making import At, target, x

INSTANCES = json.dumps(
    {
        "images": [{"id": 1, "file_name": "1.png", "height": 4, "width": 4}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}],
        "categories": [{"id": 1, "name": "cat"}],
    }
).encode()
VOC = {
    "ImageSets/Main/train.txt": b"x\n",
    "Annotations/x.xml": b"<a><size><width>4</width><height>4</height></size></a>",
}
SYNSETS = At("synsets", {"n01/1.JPEG": _png(), "n02/2.JPEG": _png()})
LABELS = At("labels.txt", b"n01,cat\nn02,dog\n")
CIFAR = At("a.bin", bytes(3073))
POSITIVE = [bad for bad in KINDS["positive"] if bad.label != "None"]
SEED = [bad for bad in KINDS["seed"] if bad.label != "None"]
#: Archives end with zeros, and an owner may have any name.
HARMLESS = ("half a file", "a file without its last byte", "a wrong beginning", "a huge length")
NO_DATA = [value(3), value("text"), OPAQUE, value([]), value(None)]


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in (("a.png", _png()), ("a.cls", b"1")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def pictures() -> datasets.ImageFolder:
    import tempfile
    from pathlib import Path

    root = At("p", {"cat/1.png": _png(), "dog/1.png": _png()}).make(Path(tempfile.mkdtemp()))
    return datasets.ImageFolder(root)


def _shards(path: Any, **options: Any) -> list[Any]:
    return list(datasets.ImageShards([path], **options))


TARGETS: list[Target] = [
    target(
        "vision.datasets.CocoDetection",
        {"0": At("a.json", INSTANCES), "1": At("images", {"1.png": _png()})},
        _0=[
            *KINDS["input_path"],
            *damaged("a.json", INSTANCES),
        ],
        _1=[value(3.5), value([]), OPAQUE],
        max_side=POSITIVE,
        on_error="choice",
        rasterise="callable",
    ),
    target(
        "vision.datasets.BoxList",
        {"0": At("a.lst", b"1.png\t0 0 2 2 0\n"), "1": 3},
        _0="input_path",
        _1=[value(0), value(-1), value(1.5), OPAQUE],
        root=[value(3.5), value([]), OPAQUE],
        max_side=POSITIVE,
        on_error="choice",
    ),
    target(
        "vision.datasets.VocDetection",
        {"0": At("voc", VOC)},
        _0="no_path",
        split=[value("none"), value(3), OPAQUE, value("a\0b")],
        max_side=POSITIVE,
    ),
    target(
        "vision.datasets.ImageNet",
        {"0": SYNSETS, "1": LABELS},
        _0="no_path",
        _1="input_path",
        size="shape",
        pattern=[value(3), value(""), value("a/b"), OPAQUE],
    ),
    target("vision.datasets.read_labels", {"0": LABELS}, _0="input_path"),
    target("vision.datasets.read_cifar", {"0": CIFAR}, _0="input_path", classes="positive"),
    target(
        "vision.datasets.ImageShards",
        {"path": At("a.tar", _tar())},
        call=_shards,
        path="input_path",
        size="shape",
        classes=POSITIVE,
        seed=SEED,
    ),
    target(
        "vision.datasets.ImageShards of a damaged file",
        {"path": At("a.tar", _tar())},
        call=_shards,
        path=[bad for bad in damaged("a.tar", _tar()) if bad.label not in HARMLESS],
    ),
    target("vision.datasets.Scenes", {"0": 3}, _0="count", seed="seed", size="positive"),
    target(
        "vision.datasets.Target",
        {
            "boxes": lambda: x(1, 4),
            "labels": lambda: x(1),
            "areas": lambda: x(1),
            "crowd": lambda: x(1),
            "image_id": 1,
            "original_size": (4, 4),
        },
        boxes=[value(3), value("text"), OPAQUE],
        labels=[value(3), value("text"), OPAQUE],
    ),
    target("vision.datasets.CachedImages", {"0": pictures}, _0=NO_DATA, max_bytes="count"),
    target(
        "vision.datasets.detection_collate", {"0": lambda: list(datasets.Scenes(2))}, _0=NO_DATA
    ),
    target("vision.datasets.class_counts", {"0": lambda: datasets.Scenes(2)}, _0=NO_DATA),
    target(
        "vision.datasets.class_weights",
        {"0": [1, 2]},
        _0=[value(3), value([0, 1]), value([]), value([-1, 2]), OPAQUE],
        power="number",
    ),
    target("vision.datasets.box_statistics", {"0": lambda: datasets.Scenes(2)}, _0=NO_DATA),
    target(
        "vision.datasets.write_coco",
        {"0": lambda: datasets.Scenes(1), "1": At("out")},
        _0=NO_DATA,
        _1=[value(3.5), value([]), OPAQUE],
    ),
    target(
        "vision.datasets.write_box_list",
        {
            "0": At("a.lst", b"1.png\n"),
            "1": At("out.lst"),
            "2": At("images", {"1.png": _png()}),
        },
        call=lambda source, path, folder: datasets.write_box_list(
            path, datasets.BoxList(source, 3, root=folder), folder
        ),
        _1="output_path",
    ),
    target(
        "vision.datasets.write_image_blob",
        {"0": pictures, "1": At("out.blob")},
        _0=NO_DATA,
        _1=[value(3.5), value([]), OPAQUE],
    ),
    target(
        "vision.datasets.write_image_shards",
        {"0": pictures, "1": At("out")},
        _0=NO_DATA,
        _1=[value(3.5), value([]), OPAQUE],
        per_shard="positive",
        seed=SEED,
    ),
    target(
        "vision.decode_image",
        {"data": _png()},
        data=[value(b""), value(b"text"), value("text"), value(3), OPAQUE, value(_png()[:-30])],
        size="shape",
        max_pixels="positive",
    ),
    target(
        "data.Repeated",
        {"0": lambda: data.TensorDataset(x(4))},
        _0=[value(3), value("text"), OPAQUE],
        repeats="positive",
        length="count",
        seed=SEED,
    ),
]
UNTRIED: dict[str, str] = {
    "vision.datasets.BoxStatistics": "what box_statistics returns",
    "vision.datasets.Corrections": "what readers of boxes return",
    "vision.datasets.DetectionDataset": "abstract",
    "vision.datasets.ImageBlob": "opens a FileBlob",
    "vision.datasets.load_cifar10": "a loader; takes a record of options",
    "vision.datasets.load_cifar100": "a loader; takes a record of options",
    "vision.datasets.load_digits": "a loader; takes a record of options",
    "vision.datasets.load_folder": "a loader; takes a record of options",
    "vision.datasets.load_mnist": "a loader; takes a record of options",
    "vision.datasets.register": "changes the registry",
}
