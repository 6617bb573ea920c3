"""Writing a data set with boxes as a folder of PNG files and COCO's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_tensor.files import replacing
from fl_vision.datasets.detection import DetectionDataset
from fl_vision.datasets.target import Target
from fl_vision.errors import UsageError


@checked
def write_coco(data: DetectionDataset, folder: str | Path) -> Path:
    """Write `images/{number}.png` and `instances.json` into `folder`; the path of the JSON file.

    `CocoDetection(folder / "instances.json", folder / "images")` reads it: with the same pixels,
    boxes, labels, areas and crowds. Categories are the classes, with ids from 1; ids of images and
    objects begin at 1, too. Masks are written as uncompressed runs, where targets have them. The
    JSON file appears when all images are there.

    Raises `UsageError` for pictures that are not (1 or 3, H, W) uint8, and `fl_tensor.FileError`
    where nothing can be written.
    """
    folder = Path(folder)
    images: list[dict[str, Any]] = []
    objects: list[dict[str, Any]] = []
    for number in range(len(data)):
        pixels, target = data[number]
        name = f"{number:06}.png"
        with replacing(folder / "images" / name, parents=True) as file:
            picture_of_pixels(pixels, number).save(file, "PNG", compress_level=1)
        height, width = pixels.shape[1:]
        images.append({"id": number + 1, "file_name": name, "height": height, "width": width})
        for entry in _entries(target):
            objects.append({"id": len(objects) + 1, "image_id": number + 1, **entry})
    content = {
        "images": images,
        "annotations": objects,
        "categories": [{"id": n, "name": name} for n, name in enumerate(data.classes, 1)],
    }
    path = folder / "instances.json"
    with replacing(path, parents=True) as file:
        file.write(json.dumps(content, separators=(",", ":")).encode())
    return path


def picture_of_pixels(pixels: ft.Tensor, number: int) -> Image.Image:
    if pixels.ndim != 3 or pixels.shape[0] not in (1, 3) or pixels.dtype != ft.uint8:
        raise UsageError(
            f"[boxes] image {number} is {pixels.shape} {pixels.dtype}: give (1 or 3, H, W) uint8"
        )
    channels, height, width = pixels.shape
    mode = "L" if channels == 1 else "RGB"
    return Image.frombytes(mode, (width, height), bytes(pixels.permute(1, 2, 0).tobytes()))


def _entries(target: Target) -> Iterator[dict[str, Any]]:
    rows = (field.tolist() for field in (target.boxes, target.labels, target.areas, target.crowd))
    for number, (box, label, area, crowd) in enumerate(zip(*rows, strict=True)):
        left, top, right, bottom = box
        entry: dict[str, Any] = {
            "category_id": label + 1,
            "bbox": [left, top, right - left, bottom - top],
            "area": area,
            "iscrowd": int(crowd),
        }
        if target.masks is not None:
            mask = np.asarray(target.masks[number].tolist(), np.bool_)
            entry["segmentation"] = {"size": list(mask.shape), "counts": _runs(mask)}
        yield entry


def _runs(mask: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
    """Lengths of runs of equal pixels, down the columns, beginning with one of False."""
    flat = mask.T.reshape(-1)
    ends = np.flatnonzero(np.diff(flat, prepend=False, append=not flat[-1]))
    return [int(n) for n in np.diff(ends, prepend=0)]
